"""What trees and words were worth next to curves in a run of `online-rank train`."""

from typing import Any

from online_rank.base import serving_ranker
from online_rank.base.closed import form_of
from online_rank.base.form import Blend
from online_rank.support.registry import of_another_part


def with_trees(model: Any) -> dict[str, Any] | None:
    """The measure of each query before it was learned, by curves alone and as served, and what both export to.

    None for a model that grows no trees, or has learned from no query that can be ranked wrongly.
    """
    ranker = serving_ranker(model)
    hedge = getattr(ranker, "trees_beside", None)
    if hedge is None or not hedge.account.counted_weight:
        return None
    if getattr(ranker, "words_beside", None) is not None:
        return None  # Nothing exports it yet, and `with_words` has its figures.
    counted = hedge.account.counted_weight
    form = form_of(ranker)
    alone = form.head.forms[0] if isinstance(form.head, Blend) else form
    targets_of = of_another_part("targets_of")
    return {
        "curves": 1.0 - float(hedge.losses[0]) / counted,
        "served": 1.0 - hedge.account.served / counted,
        "trees": ranker.n_trees if isinstance(form.head, Blend) else 0,
        "exports_curves": targets_of(alone),
        "exports_served": targets_of(form),
    }


def in_words(found: dict[str, Any], measure: str) -> str:
    """The comparison as a line, and the targets of `export`."""
    first = f"curves alone: {measure} {found['curves']:.4f} progressively; "
    if not found["trees"]:
        first += f"trees are not served, since nothing shows yet that they help: {found['served']:.4f}"
    else:
        first += f"with {found['trees']:,} trees: {found['served']:.4f}"
    alone, served = found["exports_curves"], found["exports_served"]
    if alone == served:
        return f"{first}. Both export to {', '.join(alone)}"
    return f"{first}. Curves alone export to {', '.join(alone)}; with trees to {', '.join(served)}"


def with_words(model: Any) -> dict[str, Any] | None:
    """The measure of each query before it was learned, without words and as served, and the kinds of the features.

    None for a model that learns no words.
    """
    ranker = serving_ranker(model)
    hedge = getattr(ranker, "words_beside", None)
    if hedge is None or not hedge.account.counted_weight:
        return None
    counted = hedge.account.counted_weight
    return {
        "without": 1.0 - float(hedge.losses[0]) / counted,
        "served": 1.0 - hedge.account.served / counted,
        "words": ranker.n_words,
        "kinds": kinds_of(model),
    }


def words_in_words(found: dict[str, Any], measure: str) -> str:
    """The comparison as a line."""
    return (
        f"without words: {measure} {found['without']:.4f} progressively; with {found['words']:,} words and pairs: "
        f"{found['served']:.4f} ({kinds_in_words(found['kinds'])})"
    )


def kinds_of(model: Any) -> dict[str, str]:
    """The kinds of the features of a model that are no numbers; empty for a model that knows no kinds."""
    kinds: dict[Any, str] = getattr(serving_ranker(model), "feature_kinds", {})
    return {str(name): kind for name, kind in kinds.items() if kind != "number"}


def kinds_in_words(kinds: dict[str, str]) -> str:
    """Kinds as a part of a sentence."""
    return ", ".join(f"{name} is {'a ' if kind != 'ignored' else ''}{kind}" for name, kind in kinds.items())
