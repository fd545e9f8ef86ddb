"""How a service treats positions: what its model can learn from clicks, and what it shows to learn it."""

import json
from collections.abc import Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from online_rank.base import ranker_of, steps_of
from online_rank.rankers import ClickPerceptron, ExaminedRanker
from online_rank.rankers.frozen import FrozenRanker

ESTIMATED, NONE = "estimated", "none"
#: The examination if positions do not matter.
_ALIKE = (1.0,) * 20


def with_examination(model: Any, given: str | None, has_events: bool) -> Any:
    """A model that learns from clicks as `--examination` says: a file, "estimated" or "none"; None if it was not given.

    A model that learns from clicks directly needs it only if it shows lists without chance.

    Raises
    ------
    ValueError
        A model for grades would learn from events the positions of documents.
    OSError
        The file cannot be read.
    """
    ranker = ranker_of(model)
    if not ranker.abilities.takes_clicks:
        if given is None and has_events:
            raise ValueError(
                "--event teaches a model for grades at which positions documents were shown, unless --examination says how "
                'often each is looked at: a FILE, "estimated" from the clicks on its lists, or "none" if they do not matter'
            )
        if given in (None, NONE):
            return model
        return examined(model, examination_in(given))
    if given != NONE and _needs_examination(ranker):
        ranker.examination = examination_in(given)
    return model


def examined(model: Any, examination: tuple[float, ...] | None) -> Any:
    """A model for grades that learns from clicks by the examination of their positions; None for what lists themselves say."""
    return reduce(or_, [*steps_of(model)[:-1], ExaminedRanker(ranker_of(model), examination=examination)])


def how_it_serves(model: Any, challenge: Any, events: Sequence[str]) -> list[str]:
    """What a service shows with a model and a challenge, how much of the greedy DCG that keeps, and what it learns from."""
    ranker = ranker_of(model)
    kinds = f" and events ({', '.join(events)})" if events else ""
    if not ranker.abilities.draws:
        corrected = ", as if positions did not matter" if events else ""
        return [f"ranks greedily; learns from grades{kinds}{corrected}"]
    if challenge is not None and challenge.keep is not None:
        models = [ranker, ranker_of(challenge.model)]
        serving, waiting = ("the ranking of today", "the model")[:: -1 if challenge.n_turns % 2 else 1]
        learns = f"learns from clicks{kinds} on what it shows"
        if any(isinstance(each, FrozenRanker) for each in models):
            learns = f"learns nothing: clicks{kinds} are votes, and the model of the file stays as it is"
        return [
            f"draws the lists to show around {serving}; with votes on {challenge.share:.1%} of them, users see at least "
            f"{challenge.keep:.1%} of its DCG; {waiting} takes over when it is better; {learns}"
        ]
    if ranker.keep == 1.0:
        shows = "ranks greedily"
    elif ranker.keep is not None:
        shows = f"draws the lists to show within a budget: users see at least {ranker.keep:.1%} of the greedy lists' DCG"
    else:
        confidence = getattr(ranker, "confidence", 0.0)
        shows = (
            f"draws the lists to show from all documents, at confidence {confidence:.2f}, without a budget: the model began "
            "with nothing (--from-today FIELD draws around the ranking of today)"
        )
    if _needs_examination(ranker) and ranker.examination is None:
        return [
            f"{shows}; learns from no feedback: neither the probabilities of its lists are known, nor how often each position "
            "is looked at (--examination FILE)"
        ]
    return [f"{shows}; learns from clicks{kinds} on what it shows"]


def _needs_examination(ranker: Any) -> bool:
    """Whether clicks on the lists that a ranker shows teach it only with the examination of positions."""
    return isinstance(ranker, ClickPerceptron) and ranker.credit == "propensity" and ranker.policy is None


def examination_in(given: str | None) -> tuple[float, ...] | None:
    """What `--examination` gives: None if it is estimated, 1 everywhere if positions do not matter, or the numbers of a file.

    That is a JSON list, the figures of `train --clicks moved --json`, or numbers between white space.
    """
    if given in (None, ESTIMATED):
        return None
    if given == NONE:
        return _ALIKE
    file = str(given)
    text = Path(file).read_text("utf-8")
    try:
        found = json.loads(text)
        numbers = tuple(map(float, found["examination"] if isinstance(found, dict) else found))
    except (ValueError, KeyError, TypeError):
        try:
            numbers = tuple(map(float, text.replace(",", " ").split()))
        except ValueError:
            numbers = ()
    if not numbers or not all(0.0 < p <= 1.0 for p in numbers):
        raise ValueError(f"{file}: --examination takes one probability above 0 for each position, the first for the first")
    return numbers
