"""The rule of a service, under hostile requests.

After any request that is accepted, the state can be saved, loaded and gone on from, equal to the bit; after any that is
refused, everything is as it was, draws included.
"""

import json
import math
import random
import shutil
import struct
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks._common import in_memory
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.messages import BINARY_BEGINS
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import read
from online_rank.storage.files import to_bytes
from tests.campaigns.found import Found

IDS = [0, 1, 2, "q", "", "\U0001f600", -(2**63), 2**63 - 1, "x" * 1000]
BAD_IDS = ["\ud800", 2**63, -(2**63) - 1, "x" * 1001, True, 1.5, None, [1], {"a": 1}]
NAMES = ["x", "y", "z", "1", "2", "", "\U0001f600", "\u0000", "n" * 300, "a.b", "id", "docs"]
DOCUMENTS = ["a", "b", "c", "d", "", "\U0001f600", "1"]
NUMBERS = [0, 1, -1, 2.5, -0.0, 3, 7, True, False, 5e-324, 1e-300, 1e15, 2**53 + 1]
LARGE = [1e70, -1e70, 1e71, 1e150, -1e154, 1e200, 1e308, -1e308, 10**19, 10**30, 10**400]
NO_NUMBERS = ["text", "", None, [], [1], {}, {"a": 1}, "1"]
GRADES = [0, 0, 1, 2, 3, 1, 1000, 4]
BAD_GRADES = [True, 1001, -1, 1.5, "1", None, [], 10**30, 1e300]
GAINS = [0, 1, 0.5, 3, 1e-300, 1e300, True, -1, "1", None, 1e308]


def request(rng: random.Random, shown: Mapping[Any, list[str]]) -> bytes:
    """A request: most are such as come, some are not."""
    kind = rng.random()
    query_id = rng.choice(BAD_IDS) if rng.random() < 0.03 else rng.choice(IDS)
    if kind < 0.45:
        fields: dict[str, Any] = {"id": query_id, "docs": documents(rng)}
        if rng.random() < 0.3 and isinstance(fields["docs"], dict):
            fields = columns(rng, **fields)
            if rng.random() < 0.5:
                return binary(**fields)
    elif kind < 0.95:
        known = shown.get(query_id if isinstance(query_id, int | str) else None, DOCUMENTS[:3])
        if rng.random() < 0.25:
            fields = {"id": query_id, "clicks": clicks(rng, known)}
        else:
            fields = {"id": query_id, "grades": grades(rng, known)}
    else:
        fields = rng.choice([{"cmd": "stats"}, {"cmd": "save"}, {"cmd": 3}, {}, {"id": 1}, {"id": 1, "docs": 3}, {"docs": {}}])
    text = json.dumps(fields)
    if rng.random() < 0.03:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", "}", '"', "[", "NaN", "\x00", "1e999", "\ud800"]) + text[at + 1 :]
    return text.encode("utf-8", "surrogatepass")


def documents(rng: random.Random) -> Any:
    if rng.random() < 0.02:
        return rng.choice([[], None, {"a": 3}, {"a": None}, [{}], "docs"])
    n_features = rng.choice([0, 1, 2, 2, 3, 3])
    names = rng.sample(NAMES[:3] if rng.random() < 0.7 else NAMES, min(n_features, 3))
    large, odd = rng.random() < 0.15, rng.random() < 0.07

    def value() -> Any:
        if odd and rng.random() < 0.3:
            return rng.choice(NO_NUMBERS)
        return rng.choice(LARGE) if large and rng.random() < 0.3 else rng.choice([*NUMBERS, rng.gauss(0.0, 1.0)])

    ragged = rng.random() < 0.2
    return {
        name: {feature: value() for feature in names if not ragged or rng.random() < 0.6}
        for name in rng.sample(DOCUMENTS, rng.choice([0, 1, 2, 3, 3, 4, 5]))
    }


def columns(rng: random.Random, id: Any, docs: dict[str, Any]) -> dict[str, Any]:
    """A query in columns; in some the rows do not fit."""
    rows = [x if isinstance(x, dict) else {} for x in docs.values()]
    features = [*dict.fromkeys(name for x in rows for name in x)]
    fields = {"id": id, "features": features, "documents": [*docs], "rows": [[x.get(name) for name in features] for x in rows]}
    if rng.random() < 0.05:
        one = rng.choice(["features", "documents", "rows"])
        fields[one] = rng.choice([[], [*fields[one], *fields[one]], fields[one][:-1], None])
    return fields


def binary(rows: Any, **head: Any) -> bytes:
    """A query in binary; numbers beyond 32-bit floats are infinite, and what is no number is missing."""
    cells = [cell if isinstance(cell, int | float) else math.nan for row in rows or () for cell in row]
    values = b"".join(struct.pack("<f", cell if abs(cell) < 3e38 else math.inf if cell == cell else cell) for cell in cells)
    return BINARY_BEGINS + json.dumps(head).encode() + b"\n" + values


def grades(rng: random.Random, known: list[str]) -> Any:
    if rng.random() < 0.03:
        return rng.choice([[], None, 3, "grades", {}])
    given: dict[str, Any] = {name: rng.choice(GRADES) for name in known}
    if rng.random() < 0.12 and given:
        given[rng.choice(known)] = rng.choice(BAD_GRADES)
    if rng.random() < 0.05:
        given[rng.choice(DOCUMENTS)] = 1
    if rng.random() < 0.05 and given:
        given.pop(rng.choice([*given]))
    return given


def clicks(rng: random.Random, known: list[str]) -> Any:
    if rng.random() < 0.05:
        return rng.choice([None, 3, "a", [["a"]], [None], {"a": []}])
    some = [name for name in known if rng.random() < 0.4]
    return some if rng.random() < 0.5 else {name: rng.choice(GAINS) for name in some}


def sequence(make: Callable[[], Any], rng: random.Random, length: int, reopen: float) -> Found:
    """Send `length` requests to a new service, and look after each; with probability `reopen`, at its folder too."""

    def new() -> RankingService:
        return RankingService(make(), wait_bytes=30_000)

    found = Found(requests=length)
    shown: dict[Any, list[str]] = {}
    with in_memory() as place:
        folder, copy = place / "run", place / "copy"
        durable = DurableService(new(), folder, every=rng.choice([3, 10, 1000]))
        before = to_bytes(durable.service)
        for n in range(length):
            line = request(rng, shown)
            try:
                reply = durable.service.handle(line)
                json.dumps(reply.answer, allow_nan=False)
                after = to_bytes(durable.service)
                if "error" in reply.answer:
                    found.count(refused=1)
                    if after != before or reply.changed:
                        found.wrong.append(f"request {n}, refused, changed the service: {line[:200]!r}")
                else:
                    found.count(accepted=1)
                    if "ranking" in reply.answer:
                        shown[reply.answer["id"]] = [*read(line).given]
                    if (after != before) != reply.changed:
                        found.wrong.append(f"request {n} changed the service, and said otherwise: {line[:200]!r}")
                    durable.append([reply.outcome], sync=reply.learned)
                    durable.between_commits()
                    after = to_bytes(durable.service)  # Ids that were learned have left the memory for the folder.
                    if durable.checkpoint_failure is not None:
                        found.wrong.append(f"request {n}: {durable.checkpoint_failure}: {line[:200]!r}")
                    if rng.random() < reopen or n == length - 1:
                        found.count(reopened=1)
                        if to_bytes(read_service(folder)) != after:
                            found.wrong.append(f"request {n}: the folder holds another service: {line[:200]!r}")
                        shutil.rmtree(copy, ignore_errors=True)
                        shutil.copytree(folder, copy)
                        again = DurableService(new(), copy)
                        probe = json.dumps({"id": "probe", "docs": {"a": {"x": 1.0}, "b": {"x": -1.0, "y": 2}}}).encode()
                        service = read_service(folder)
                        if (again.service.handle(probe, at=1e9).answer, to_bytes(again.service)) != (
                            service.handle(probe, at=1e9).answer,
                            to_bytes(service),
                        ):
                            found.wrong.append(f"request {n}: another service continues: {line[:200]!r}")
                        again.close()
                before = after
            except Exception as error:
                found.wrong.append(f"request {n}: {type(error).__name__}: {str(error)[:200]}: {line[:300]!r}")
                break
        durable.close()
    return found


def rule(models: Mapping[str, Callable[[], Any]], seed: int = 0, length: int = 60, reopen: float = 0.02) -> Found:
    """A sequence of hostile requests to each model."""
    rng, total = random.Random(seed), Found()
    for name, make in models.items():
        total.add(sequence(make, random.Random(rng.randrange(1 << 40)), length, reopen), f"{name}, seed {seed}")
    return total
