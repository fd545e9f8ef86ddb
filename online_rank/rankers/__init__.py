"""Rankers: models that rank the documents of a query and learn from feedback, one query at a time."""

from online_rank.support.lazy import lazily
from online_rank.support.registry import TOP_LEVEL

_HOME = {name: home.partition(".")[2] for name, home in TOP_LEVEL.items() if home.startswith("rankers.") and name[0].isupper()}

__all__ = [*_HOME]

__getattr__, __dir__ = lazily(__name__, _HOME)
