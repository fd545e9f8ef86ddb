"""The settings of `online-rank train`, and the queries that they describe."""

import hashlib
import os
import random
from collections.abc import Iterable, Iterator
from typing import Any

from online_rank.cli.files import histories_of, require_no_time
from online_rank.cli.options import Training
from online_rank.cli.reading import Reading, check_files
from online_rank.query.names import in_nfc
from online_rank.support.registry import of_another_part

SHUFFLE_BUFFER = 2048

#: The signs of weights, as they may be written.
_SIGNS = {"+": 1, "+1": 1, "1": 1, "-": -1, "-1": -1}


class Made(Iterator[tuple]):
    """Queries derived from a source; the progress bar reads from the source how much of it was read."""

    def __init__(self, queries: Iterable[tuple], source: Any) -> None:
        self._queries = iter(queries)
        self._source = source

    def __next__(self) -> tuple:
        return next(self._queries)

    @property
    def fraction(self) -> float | None:
        """The fraction of the source that has been read, if known."""
        return getattr(self._source, "fraction", None)


class Settings(Training):
    """What to learn from, and how, with the queries that this describes."""

    files: list[str]
    test: list[str]

    @classmethod
    def of(cls, given: Training) -> "Settings":
        """The settings that were given, with empty lists in place of None."""
        return cls(*given._replace(files=given.files or [], test=given.test or []))

    @property
    def signs(self) -> dict[str, int] | None:
        """The signs of weights. Raises ValueError for one that is not written as NAME=+ or NAME=-."""
        found: dict[str, int] = {}
        for text in self.sign or ():
            name, _, sign = in_nfc(text).rpartition("=")
            if not name or sign not in _SIGNS:
                raise ValueError(f"--sign {text}: give the name of a feature and its sign, as in price=- or clicks=+")
            if found.setdefault(name, _SIGNS[sign]) != _SIGNS[sign]:
                raise ValueError(f"--sign {text}: {name} has both signs")
        return found or None

    @property
    def kinds(self) -> dict[str, str] | None:
        """The kinds of columns of texts. Raises ValueError for one that is not written as NAME=KIND."""
        found: dict[str, str] = {} if self.reading.query_text is None else {in_nfc(self.reading.query_text): "text"}
        for text in self.kind or ():
            name, _, kind = in_nfc(text).rpartition("=")
            if not name or kind not in ("text", "category", "ignored"):
                raise ValueError(
                    f"--kind {text}: give the name of a column and its kind, text, category or ignored: title=text"
                )
            if found.setdefault(name, kind) != kind:
                raise ValueError(f"--kind {text}: {name} is {found[name]} already")
        if found and self.ranker != "additive":
            raise ValueError(f"--kind and --query-text are for --ranker additive, not for {self.ranker}")
        return found or None

    @property
    def relative(self) -> bool:
        """Whether columns may be relative to the query: not for a target that sees one document at a time."""
        return self.target is None or of_another_part("sees_queries")(self.target)

    def queries(self, number: int, model: Any, source: Any = None) -> Iterable[tuple]:
        """The queries of pass `number`, counted from 0, for a model; from a source, if the files are open."""
        if source is None:
            source = self.reading.queries(self.files, model, words=self.target is None)
        if self.shuffle is None:
            return source
        return Made(shuffled(source, random.Random(f"{self.shuffle} {number}")), source)

    def of_run(self) -> dict[str, Any]:
        """The settings that must be equal for a run to continue from a checkpoint."""
        begun = [] if self.begin_with is None else [self.begin_with]
        contents = [_digest(file) if os.path.isfile(file) else None for file in [*self.files, *begun]]
        files = [os.path.abspath(file) for file in self.files]
        return {**self._asdict(), **self.reading._asdict(), "reading": None, "files": files, "contents": contents, "test": None}

    def shown(self) -> dict[str, Any]:
        """The settings in a form for people."""
        return {name: value for name, value in {**self._asdict(), **self.reading._asdict()}.items() if name != "reading"}

    @classmethod
    def from_run(cls, run: dict[str, Any], test: list[str]) -> "Settings":
        """The inverse of `of_run`: the settings of a run, and the files to test it on."""
        reading = Reading(**{name: run[name] for name in Reading._fields if name in run})
        return cls(**{name: run[name] for name in cls._fields if name in run} | {"reading": reading, "test": test})

    def check(self) -> None:
        """Raise, before anything is read, for settings that cannot work."""
        if not self.files:
            raise ValueError("Missing argument 'FILE': the files to learn from (see online-rank train --help)")
        if "-" in self.files and self.passes > 1:
            raise ValueError("standard input (-) can be read once: give a file, or --passes 1")
        if [*self.files, *self.test].count("-") > 1:
            raise ValueError("standard input (-) can be read once, but it is given more than once")
        check_files([*self.files, *self.test])
        if self.begin_with is not None:
            check_files([self.begin_with])
            if self.ranker != "additive":
                raise ValueError(f"--begin-with is for --ranker additive, not for {self.ranker}: both are blended")
            if self.sign:
                raise ValueError("--sign is for curves alone: the trees of --begin-with keep no sign")
        if self.kinds and self.target is not None and "text" in self.kinds.values():
            raise ValueError(
                f"--for {self.target}: engines cannot compute words yet: leave out --query-text and --kind NAME=text"
            )
        if self.target is not None:
            of_another_part("require_target")(self.target)
        if self.target is not None and self.tastes is not None:
            raise ValueError(f"--for {self.target}: engines keep no tastes of users: leave out --tastes")
        if self.reading.event_time is None:
            require_no_time(histories_of(self.history))
        # The others are compared with their own candidates while they learn.
        if self.certify and self.ranker == "perceptron" and (self.passes > 1 or "-" in self.files):
            raise ValueError("--certify needs a re-readable file and --passes 1")


def _digest(file: str) -> str:
    """A fingerprint of a file's content."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()


def shuffled(queries: Iterable[Any], rng: random.Random) -> Iterator[Any]:
    """The queries shuffled in a buffer of `SHUFFLE_BUFFER` queries."""
    buffer: list[Any] = []
    for query in queries:
        if len(buffer) < SHUFFLE_BUFFER:
            buffer.append(query)
            continue
        i = rng.randrange(SHUFFLE_BUFFER)
        yield buffer[i]
        buffer[i] = query
    rng.shuffle(buffer)
    yield from buffer
