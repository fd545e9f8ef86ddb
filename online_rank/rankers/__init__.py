"""Rankers: models that rank the documents of a query and learn from feedback, one query at a time."""

from online_rank.support.lazy import lazily
from online_rank.support.registry import classes

_HOME = {name: home.removeprefix("rankers.") for name, home in classes().items() if home.startswith("rankers.")}

__all__ = [*_HOME]

__getattr__, __dir__ = lazily(__name__, _HOME)
