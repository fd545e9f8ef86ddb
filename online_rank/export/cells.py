"""What each target computes of each part of a model, or why it does not: the one list of which errors and docs are made."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from online_rank.export.table import TARGETS

if TYPE_CHECKING:
    from online_rank.export.door import Opened

#: The parts of models.
PARTS = {
    "weights": "weights of raw features, behind scalers",
    "trees": "trees on raw features",
    "curves": "curves of features",
    "networks": "networks; blends of weights and trees",
    "relative": "columns relative to the query, `AdditiveRanker()` among them",
    "missing": "missing values",
    "categories": "categories",
    "vectors": "vectors of documents and queries",
    "context": "products with the context (`CrossFeatures`)",
    "histories": "features that `History` keeps",
    "words": "words of texts, and pairs with the context",
    "lists": "lists of retrievers (`RunFeatures`)",
}
#: The parts that are kinds of models in `table.KINDS`.
_KINDS = {"weights": "linear", "trees": "trees", "curves": "curves", "networks": "document", "relative": "query"}
_ONE_DOCUMENT = "it sees one document at a time"
_OF_KINDS = {
    "weights": "it takes trees alone",
    "curves": "it takes weights alone",
    "trees": "it takes weights alone",
    "networks": "it computes sums of trees or weights",
    "relative": _ONE_DOCUMENT,
}
_BOOSTERS, _PLUGINS = ("lightgbm", "xgboost"), ("elasticsearch", "opensearch", "solr")
_WORDS = "words are kept by hashes, which engines cannot look up: export a model without words, as train --for learns it"


class Cell(NamedTuple):
    """Whether a target computes a part of models: how, or why not.

    Attributes
    ----------
    to, part
        The target, and one of `PARTS`.
    how
        "yes", or how the part becomes something else; empty if the target cannot compute it.
    reason
        Why it cannot.
    """

    to: str
    part: str
    how: str
    reason: str


def cell(to: str, part: str) -> Cell:
    """What a target does with a part of a model.

    Examples
    --------
    >>> cell("solr", "curves").how, cell("lightgbm", "vectors").reason
    ('as trees', 'it takes numbers alone, and no products of vectors')
    """
    how, reason = _found(to, part)
    return Cell(to, part, how, reason)


def _found(to: str, part: str) -> tuple[str, str]:
    kinds = TARGETS[to].kinds
    if "fusion" in kinds or part == "lists":
        if ("fusion" in kinds) == (part == "lists"):
            return "yes", ""
        return "", "it fuses lists, and sees no features" if part != "lists" else "it sees features, and no lists"
    if part in _KINDS:
        if _KINDS[part] not in kinds:
            return "", _OF_KINDS[part]
        return "as trees" if part == "curves" and "document" not in kinds else "yes", ""
    if part == "missing":
        return "as 0, under a condition" if to in _PLUGINS else "yes", ""
    if part == "categories":
        return "yes", ""
    if part == "histories":
        return "as fields", ""
    if part == "words":
        return "", _WORDS
    if to in _BOOSTERS:
        what = "vectors" if part == "vectors" else "columns"
        return "", f"it takes numbers alone, and no products of {what}"
    if to in _PLUGINS:
        return "", "its models add up trees, or weights of features, and products with the query are neither"
    return "yes", ""


def reason_of_kind(kind: str) -> str:
    """Why a target does not compute a kind of models."""
    return next(_OF_KINDS[part] for part, own in _KINDS.items() if own == kind)


def cells() -> Iterator[Cell]:
    """All cells."""
    return (cell(to, part) for part in PARTS for to in TARGETS)


def require_parts(to: str, door: "Opened") -> None:
    """Raise TypeError for a target that cannot compute what a model has before its form, with the feature and the reason."""
    made = {
        "vectors": [str(field.name) for field in door.vectors],
        "context": [*dict.fromkeys(door.context.values())],
    }
    for part, names in made.items():
        reason = cell(to, part).reason
        if names and reason:
            able = ", ".join(other for other in TARGETS if cell(other, part).how)
            raise TypeError(
                f"{TARGETS[to].title} cannot compute this model: features are made of {_named(part)} "
                f"{', '.join(map(repr, names))}, and {reason}. Targets that can: {able}"
            )


def _named(part: str) -> str:
    return "the vector" if part == "vectors" else "the context's"


def as_table() -> str:
    """The cells as a table of Markdown, with the reasons for the gaps below; targets that are alike share a column."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for to in TARGETS:
        columns.setdefault(tuple(cell(to, part).how for part in PARTS), []).append(to)
    groups = ["targets that [fuse](#learned-fusion)" if hows[-1] else ", ".join(own) for hows, own in columns.items()]
    lines = [f"| part of a model | {' | '.join(groups)} |", f"|---|{'---|' * len(groups)}"]
    for k, (part, words) in enumerate(PARTS.items()):
        lines.append(f"| {part}: {words} | {' | '.join(hows[k] for hows in columns)} |")
    gaps: dict[tuple[str, str], list[str]] = {}
    for one in cells():
        if one.reason and "fusion" not in TARGETS[one.to].kinds and one.part != "lists":
            gaps.setdefault((one.part, one.reason), []).append(one.to)
    lines += ["", *(f"- *{part}* in {', '.join(own)}: {reason}." for (part, reason), own in gaps.items())]
    return "\n".join(lines) + "\n"
