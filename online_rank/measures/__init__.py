"""What rankers learn for and metrics report: measures by name, and measures of the user's own."""

from online_rank.support.lazy import lazily

_HOME = {
    "Measure": "learned",
    "OwnMeasure": "own",
    "RankingLoss": "own",
    "measure": "learned",
}

__all__ = [*_HOME]

# Loaded on first use: the table of names (`table`) must not import the rest of the room.
__getattr__, __dir__ = lazily(__name__, _HOME)
