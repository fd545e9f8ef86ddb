"""The models that `online-rank stream` and `serve` begin with, as their options describe them."""

from collections.abc import Hashable
from typing import Any

from online_rank import ClickCurves
from online_rank.cli.files import behind, histories_of, load_model, tastes_of
from online_rank.cli.options import Service
from online_rank.cli.positions import examination_in, with_examination
from online_rank.cli.train import new_model


def model_to_serve(options: Service, file: str | None, today: dict[Hashable, float] | None = None) -> Any:
    """The model of a file, or else a new one, with the examination of positions.

    A new one learns from clicks around the ranking of `today` if its weights are given.

    Raises
    ------
    ValueError
        Options do not fit the model.
    OSError
        A file cannot be read.
    """
    if file is not None:
        model = load_model(file)
    else:
        front = [
            *histories_of(options.history, examination_in(options.examination)),
            *tastes_of(options.tastes, options.ranker if today is None else "additive"),
        ]
        begins = new_model(options.measure, options.ranker) if today is None else ClickCurves(today)
        model = behind(front, begins)
    return with_examination(model, options.examination, bool(options.events))
