"""Names of features that a model has to forget, such as those with the id of a user."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

from online_rank.base.names import Columns

T = TypeVar("T")

_CONTAINERS = (list, tuple, set, frozenset)


def forget_names(model: Any, is_forgotten: Callable[[str], bool]) -> int:
    """Take the names of features away from a model, everywhere in it. Returns the number of features.

    Each column gets a name that no feature can have: a tuple with a number. What was learned with it stays, but no query
    reaches it any more.

    Parameters
    ----------
    model
        The model; nothing may use it meanwhile.
    is_forgotten
        Whether a name has to go.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> model = PerceptronRanker()
    >>> model.learn_one([{"price": 1.0, "price*user=u17": 1.0}, {"price": 2.0}], [1, 0])
    >>> forget_names(model, lambda name: "u17" in name), model.feature_names
    (1, ('price', ('forgotten', 0)))
    >>> model.predict_one([{"price*user=u17": 1.0}])
    [0.0]
    """
    return forget_columns(model, lambda name: any(map(is_forgotten, _texts(name))))


def forget_columns(model: Any, is_forgotten: Callable[[Hashable], bool]) -> int:
    """As `forget_names`, by the whole name of a column, such as the one of a level. Returns the number of columns."""
    tables = [*parts_of(model, Columns)]
    n = 1 + max((_number(name) for columns in tables for name in columns.names), default=-1)
    renamed: dict[Hashable, Hashable] = {}
    for columns in tables:
        for name in columns.names:
            if name not in renamed and _number(name) < 0 and is_forgotten(name):
                renamed[name] = ("forgotten", n + len(renamed))
    for columns in tables:
        if any(name in renamed for name in columns.names):
            columns.rename(renamed)
    return len(renamed)


def _number(name: Hashable) -> int:
    """The number of a forgotten name; -1 for others."""
    is_forgotten = isinstance(name, tuple) and len(name) == 2 and name[0] == "forgotten" and isinstance(name[1], int)
    return name[1] if is_forgotten else -1  # type: ignore[index]


def _texts(name: Hashable) -> Iterator[str]:
    """The texts in a name."""
    if isinstance(name, tuple):
        for part in () if _number(name) >= 0 else name:
            yield from _texts(part)
    elif isinstance(name, str | int):
        yield str(name)


def parts_of(value: Any, kind: type[T], seen: set[int] | None = None) -> Iterator[T]:
    """All objects of a kind in a model, also inside one another, each once.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> len([*parts_of(StreamScaler() | PerceptronRanker(), StreamScaler)])
    1
    """
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    # river's pipelines are instances of the class of their last step.
    if issubclass(type(value), kind):
        yield value
    if isinstance(value, dict):
        for part in value.values():
            yield from parts_of(part, kind, seen)
    elif isinstance(value, _CONTAINERS):
        for part in value:
            yield from parts_of(part, kind, seen)
    elif type(value).__module__.partition(".")[0] in ("online_rank", "river"):
        yield from parts_of(getattr(value, "__dict__", {}), kind, seen)
