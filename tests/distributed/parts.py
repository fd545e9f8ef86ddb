"""Parts of a stream that do something to the process that reads them."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Deadly:
    """A part whose first reader is killed, by SIGKILL, half way; later ones read it to the end."""

    part: Any
    mark: str

    def __iter__(self):
        for number, query in enumerate(self.part):
            if number == 3 and not Path(self.mark).exists():
                Path(self.mark).write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            yield query


@dataclass(frozen=True)
class KilledOnce:
    """What learns a part, whose first process is killed half way."""

    learn: Callable[[Any], bytes]
    mark: str

    def __call__(self, numbered: tuple[int, Any]) -> bytes:
        number, part = numbered
        return self.learn((number, Deadly(part, self.mark)))


@dataclass(frozen=True)
class PackerKilledOnce:
    """What packs rows, whose first process is killed after its first lot is packed."""

    packer: Callable[[Iterator[Any]], Iterator[Any]]
    mark: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for packs in self.packer(batches):
            if not Path(self.mark).exists():
                Path(self.mark).write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            yield packs
