"""Files of a service that were damaged: bits flipped, ends cut off, sectors zeroed, files missing.

The folder is small: 25 queries and their grades, a checkpoint in between, and a model that was replaced. It is looked at as it
is when the service was closed; when it was killed; and when power was lost before the count of what was acknowledged was synced
again, which `online_rank.storage.state` does once a second.

After each damage the service is started again. Either it refuses; or the damage is harmless: the service is the same to the
bit, and so is what it makes of further requests and keeps of them. Only in the last folder may acknowledged changes be missing
without a word, and then only from the end: this is the kind of damage that one sync cannot tell.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks._common import in_memory
from online_rank import PerceptronRanker, StreamScaler
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import from_bytes, to_bytes
from tests.campaigns.found import Found
from tests.campaigns.kills import requests

_SMALL = 4096
_SECTOR = 512
#: Flips and cuts of each larger file.
_FLIPS, _CUTS = 1000, 300

_KILLED, _CLOSED, _LATE = "killed", "closed", "killed, count late"

#: What may become of a damage; "untold" only in the last folder.
_GOOD = ("refused", "harmless", "untold")

Files = dict[str, bytes]


class Damage(NamedTuple):
    """A file with other content; None for a file that is missing."""

    kind: str
    name: str
    at: int
    content: bytes | None


class Before(NamedTuple):
    """What the folders hold, the service after each change, by its number, and what it becomes after further requests."""

    folders: dict[str, Files]
    states: dict[int, bytes]
    counted: int
    went_on: bytes


def damages(n: int, seed: int = 0, flips: int = _FLIPS, cuts: int = _CUTS) -> Found:
    """`n` damages, of all folders."""
    total, before = Found(), _before()
    rng = random.Random(seed)
    every = [(name, each) for name, files in before.folders.items() for each in _damages(files, rng, flips, cuts)]
    for name, damage in rng.sample(every, min(n, len(every))):
        what = _looked_at(before, name, damage)
        total.count(damages=1, **{what: 1} if what in _GOOD else {})
        total.expect(what in _GOOD, f"{name}, {damage.kind} {damage.name} at {damage.at}, seed {seed}: {what}")
    return total


def _before() -> Before:
    with in_memory() as folder:
        place = folder / "state"
        durable = _service(place)
        durable.save()
        (place / "previous.npz").write_bytes(to_bytes(PerceptronRanker()))
        states, late = {0: to_bytes(durable.service)}, b""
        for number, line in enumerate(requests(25, 3)):
            reply = durable.service.handle(line)
            durable.append([reply.outcome], sync=True)
            if number == 29:
                durable.save()
                late, counted = (place / "acknowledged").read_bytes(), durable.service.n_changes
            states[durable.service.n_changes] = to_bytes(durable.service)
        killed = _files(place)
        durable.close()
        closed = _files(place)
        again = _service(place)
        went_on = _goes_on(again, place)
    return Before({_KILLED: killed, _CLOSED: closed, _LATE: {**killed, "acknowledged": late}}, states, counted, went_on)


def _service(place: Path) -> DurableService:
    return DurableService(RankingService(StreamScaler() | PerceptronRanker()), place, 1000)


def _files(place: Path) -> Files:
    return {path.name: path.read_bytes() for path in place.iterdir() if not path.name.endswith("-shm")}


def _damages(files: Files, rng: random.Random, flips: int, cuts: int) -> Iterator[Damage]:
    """Every flip and every cut of small files, samples of large ones, zeroed sectors, and missing files."""
    for name, content in files.items():
        size = len(content)
        is_small = size <= _SMALL and flips >= _FLIPS
        for at in range(size) if is_small else sorted(rng.sample(range(size), min(flips, size))):
            flipped = content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
            yield Damage("flip", name, at, flipped)
        for at in range(size) if is_small else sorted(rng.sample(range(size), min(cuts, size))):
            yield Damage("cut", name, at, content[:at])
        for at in range(0, size, _SECTOR * (1 if flips >= _FLIPS else 100)):
            zeroed = content[:at] + bytes(min(_SECTOR, size - at)) + content[at + _SECTOR :]
            if zeroed != content:
                yield Damage("zero", name, at, zeroed)
        yield Damage("missing", name, 0, None)


def _looked_at(before: Before, name: str, damage: Damage) -> str:
    """What became of a damage: "refused", "harmless", "untold", or what should not be."""
    with in_memory() as folder:
        place = folder / "state"
        place.mkdir()
        for each, content in {**before.folders[name], damage.name: damage.content}.items():
            if content is not None:
                (place / each).write_bytes(content)
        try:
            durable = _service(place)
        except (OSError, ValueError):
            return "refused"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        try:
            service, newest = durable.service, max(before.states)
            state = to_bytes(service)
            if state != before.states[newest]:
                is_earlier = before.counted <= service.n_changes and state == before.states.get(service.n_changes)
                return "untold" if name == _LATE and is_earlier else "another service"
            if not _is_previous(place):
                return "refused" if damage.name == "previous.npz" else "another previous model"
            return "harmless" if _goes_on(durable, place) == before.went_on else "continues as another service"
        except (OSError, ValueError) as error:
            return f"found out late: {error}"
        finally:
            durable.close()
            shutil.rmtree(place)


def _goes_on(durable: DurableService, place: Path) -> bytes:
    """Two more requests, a checkpoint, and what the folder holds then."""
    for line in requests(1, 9):
        reply = durable.service.handle(line.replace(b'"id": 0', b'"id": "later"'), at=1e9)
        durable.append([reply.outcome], sync=True)
    durable.save()
    durable.close()
    return to_bytes(read_service(place))


def _is_previous(place: Path) -> bool:
    try:
        return to_bytes(from_bytes((place / "previous.npz").read_bytes())) == to_bytes(PerceptronRanker())
    except (OSError, ValueError):
        return False
