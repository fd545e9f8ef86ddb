"""How `train --clicks moved` learns: in several ways, and it keeps the one that foretells held-out clicks best."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from online_rank.cli.held_out import HeldOut
from online_rank.cli.positions import examined

#: Queries with the clicks on them.
Lists: TypeAlias = Iterator[tuple[Any, Any]]

LEARNED = "positions learned with the features"
INVERSE = "inverse propensities"
BOTH = "both: trees, with this examination"
#: The share of the lists, the last ones, whose clicks decide.
HELD_OUT = 0.2


def ways(
    ranker: str | None,
    examination: tuple[float, ...] | None,
    given: bool,
    signs: Mapping[str, int] | None,
    shown_on: str | None = None,
) -> dict[str, Any]:
    """New models, by the way in which they treat positions.

    `examination` is None where the log does not determine it. If it was `given`, it is not learned again. What the
    device or page in the entry `shown_on` of the context adds to clicks is learned, too.
    """
    from online_rank import ClickBlendRanker
    from online_rank.cli.train import new_model

    if ranker is not None:
        return {INVERSE: examined(new_model("ndcg@10", ranker, signs), examination)}
    found: dict[str, Any] = {} if given else {LEARNED: ClickBlendRanker(signs=signs, shown_on=shown_on)}
    if examination is not None:
        found[INVERSE] = examined(new_model("ndcg@10", "additive", signs), examination)
        found[BOTH] = ClickBlendRanker(examination=examination, signs=signs, shown_on=shown_on)
    return found


def taught(
    models: dict[str, Any],
    n_lists: int,
    passes: int,
    read: Callable[[int], Iterator[tuple[Any, Any]]],
    tell: Callable[[str], None],
) -> tuple[Any, HeldOut]:
    """The best of some models after they have learned a log, and its held-out lists; `read` opens the log for a pass.

    In the first pass each of the last lists is foretold by all models before they learn it. With several passes these lists are
    learned only in the end: the best model reads the log again as long as it foretells their clicks better.
    """
    begin, several = int((1.0 - HELD_OUT) * n_lists), passes > 1
    held = _pass(models, read(0), begin, several)
    losses = {name: each.loss() for name, each in held.items()}
    best = min(losses, key=lambda name: (losses[name] != losses[name], losses[name]))
    if len(models) > 1 or LEARNED in models:
        figures = ", ".join(f"{loss:.4f} {name}" for name, loss in losses.items())
        told = f"loss on {held[best].n:,} held-out lists with a click, by what was learned before: {figures}"
        told = told if losses[best] == losses[best] else "fewer than two held-out lists have a click: no way can be compared"
        tell(f"{told}; kept: {best}")
    model = models[best]
    if not several:
        return model, held[best]
    model = _repeated(model, losses[best], passes, read, begin, tell)
    for i, (x, clicks) in enumerate(read(passes)):
        if i >= begin:
            model.learn_one(x, clicks)
    return model, held[best]


def _repeated(
    model: Any,
    loss: float,
    passes: int,
    read: Callable[[int], Iterator[tuple[Any, Any]]],
    begin: int,
    tell: Callable[[str], None],
) -> Any:
    """The model after as many passes as make it better on the held-out lists, from its loss there after the first."""
    told = [f"{loss:.4f}"]
    for number in range(1, passes):
        before = copy.deepcopy(model)
        again = _pass({"": model}, read(number), begin, True)[""].loss()
        told.append(f"{again:.4f}")
        if not again < loss:
            model = before
            break
        loss = again
    tell(f"loss on held-out clicks after each pass: {', '.join(told)}")
    return model


def _pass(models: dict[str, Any], lists: Lists, begin: int, holds_out: bool) -> dict[str, HeldOut]:
    """Teach the models a log, and foretell the lists from `begin` on, which are not learned if they are held out."""
    held = {name: HeldOut() for name in models}
    for i, (x, clicks) in enumerate(lists):
        for name, model in models.items():
            if i >= begin:
                held[name].add(model, x, clicks)
            if i < begin or not holds_out:
                model.learn_one(x, clicks)
    return held
