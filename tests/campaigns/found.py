"""What a campaign found: how much it tried, and what went wrong."""

import collections


class Found:
    """Counts by name, and complaints: a campaign that has none has passed.

    Examples
    --------
    >>> found = Found(kills=3)
    >>> found.add(Found(kills=4))
    >>> found.expect(1 + 1 == 3, "arithmetic")
    >>> found
    7 kills; WRONG: arithmetic
    """

    def __init__(self, **counts: int) -> None:
        self.counts = collections.Counter(counts)
        self.wrong: list[str] = []

    def count(self, **counts: int) -> None:
        """Add to the counts."""
        self.counts.update(counts)

    def expect(self, holds: bool, what: str) -> None:
        """Complain if something does not hold."""
        if not holds:
            self.wrong.append(what)

    def add(self, other: "Found", name: str = "") -> None:
        """Add what another campaign found."""
        self.counts.update(other.counts)
        self.wrong += [f"{name}: {what}" if name else what for what in other.wrong]

    def __repr__(self) -> str:
        counts = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in self.counts.items())
        return counts + "; WRONG: " * bool(self.wrong) + "; ".join(self.wrong[:20])
