"""Folders of services whose rows were changed, with right digests and wrong contents: refused, or services that continue.

Rows are waiting queries, learned ids, the journal, and the notes and lists of generations: JSON inside SQLite. A service that
opens them has to answer requests, learn waiting queries and be saved; it may raise this library's errors.
"""

import copy
import functools
import json
import random
import shutil
import sqlite3
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import in_memory
from online_rank import PerceptronRanker, StreamScaler, SwapRanker
from online_rank.serving import FeedbackPlan
from online_rank.serving.durable import DurableService
from online_rank.serving.protocol import RankingService
from online_rank.storage.checkpoint import STATE
from online_rank.storage.database import digest_of
from online_rank.storage.files import ModelFileError, to_bytes
from online_rank.storage.folder import CheckpointError
from online_rank.storage.saved import chained, digest_of_id, digest_of_query
from tests.campaigns.files import is_own
from tests.campaigns.found import Found
from tests.campaigns.hostile import HANG_SECONDS, at_most

_VALUES = [
    None, True, -1, 0, 1, 3, 2**31, 2**63 - 1, 2**63, 10**30, 1e300, 0.5, "", "x", "a", "rank", "learn", "close", "drop",
    "teach", "x" * 1001, [], {}, [1], [[1]], {"a": 1}, {"a": {}}, ["a"], [0.5, 0.25], "\ud800",
]  # fmt: skip
_DOCS = {"a": {"x": 1.0}, "b": {"x": 2.0, "y": -1.0}, "c": {"y": 0.5}}


def _new(kind: str) -> RankingService:
    if kind == "clicks":
        return RankingService(SwapRanker(), wait_bytes=8000)
    plan = FeedbackPlan(window=30, events={"click": 1}) if kind == "windows" else None
    return RankingService(StreamScaler() | PerceptronRanker(), wait_bytes=8000, plan=plan)


def _lines(kind: str, numbers: range) -> list[bytes]:
    lines: list[dict[str, Any]] = []
    for i in numbers:
        lines.append({"id": i, "docs": _DOCS, "ts": 10 * i})
        if i % 3 < 2:
            feedback = (
                {"clicks": ["b"]} if kind == "clicks" else {"grades": {name: (i + j) % 3 for j, name in enumerate("abc")}}
            )
            lines.append({"id": i, "ts": 10 * i + 1, **feedback})
    return [json.dumps(each).encode() for each in lines]


@functools.cache
def _folder(kind: str) -> dict[str, bytes]:
    """The files of a service that was killed: a checkpoint, and a journal after it."""
    with in_memory() as place:
        durable = DurableService(_new(kind), place / "state", 1000)
        for number, line in enumerate(_lines(kind, range(8))):
            reply = durable.service.handle(line)
            durable.append([*reply.outcomes], sync=True)
            if number == 6:
                durable.save()
        files = {path.name: path.read_bytes() for path in (place / "state").iterdir() if not path.name.endswith("-shm")}
        durable.close()
    return files


def rows(n: int, seed: int) -> Found:
    """Open and use `n` folders with changed rows."""
    rng, found = random.Random(seed), Found(folders=n)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(n):
            kind = rng.choice(("grades", "clicks", "windows"))
            with in_memory() as folder:
                place = folder / "state"
                place.mkdir()
                for name, content in _folder(kind).items():
                    (place / name).write_bytes(content)
                what = _change_rows(place, rng)
                try:
                    with at_most(HANG_SECONDS):
                        opened = _used(kind, place)
                except (CheckpointError, ModelFileError):
                    opened = False
                except Exception as error:
                    at = traceback.extract_tb(error.__traceback__)[-1]
                    place = f"{at.filename[-40:]}:{at.lineno}"
                    found.wrong.append(f"{kind}, {number} of {seed}, {what}: {error!r} at {place}"[:400])
                    continue
                found.count(**{"opened" if opened else "refused": 1})
                shutil.rmtree(place)
    return found


def _used(kind: str, place: Path) -> bool:
    durable = DurableService(_new(kind), place, 1000)
    try:
        for line in _lines(kind, range(2, 11)):
            reply = durable.service.handle(line)
            json.dumps(reply.answer, allow_nan=False)
            durable.append([*reply.outcomes], sync=False)
        json.dumps(durable.service.stats(), allow_nan=False)
        try:
            durable.save()
            to_bytes(durable.service)
        except Exception as error:
            if not is_own(error):
                raise
    finally:
        durable.close()
    return True


def _change_rows(place: Path, rng: random.Random) -> str:
    """Change one or two rows, and make all digests right."""
    connection = sqlite3.connect(place / STATE, isolation_level=None)
    told = []
    for _ in range(rng.choice((1, 1, 2))):
        table = rng.choice(("journal", "journal", "query", "learned", "generation"))
        found = connection.execute(f"SELECT rowid, * FROM {table}").fetchall()
        if not found:
            continue
        row = rng.choice(found)
        if table == "generation":
            told.append(_change_generation(connection, rng))
        elif table == "journal":
            head, _, feedback = row[2].partition(b"\n")
            if feedback and rng.random() < 0.5:
                feedback = _other(feedback, rng)
            else:
                head = _other(head, rng)
            number = rng.choice((row[3], row[3], row[3], None, 1, 2, 10**9))
            connection.execute(
                "UPDATE journal SET outcome = ?, number = ? WHERE change = ?", (head + b"\n" + feedback, number, row[1])
            )
            told.append(f"journal {head[:120]!r} {feedback[:120]!r}")
        elif table == "query":
            head, _, text = row[2].partition(b"\n")
            if rng.random() < 0.4:
                text = _other(text, rng)
            else:
                head = _other(head, rng)
            content = head + b"\n" + text
            connection.execute(
                "UPDATE query SET content = ?, digest = ? WHERE number = ?", (content, digest_of_query(row[1], content), row[1])
            )
            told.append(f"query {content[:200]!r}")
        else:
            _, change, text, feedback, at, _ = row
            text = _other(text.encode(), rng).decode("utf-8", "replace")
            digest = digest_of_id(change, text, feedback, at)
            connection.execute("UPDATE learned SET id = ?, digest = ? WHERE change = ?", (text, digest, change))
            told.append(f"learned {text[:100]!r}")
    _digest_journal(connection)
    connection.close()
    return "; ".join(told)


def _change_generation(connection: sqlite3.Connection, rng: random.Random) -> str:
    """Change what a generation notes, or the list of its pieces."""
    number, change, notes, manifest = connection.execute(
        "SELECT number, change, notes, manifest FROM generation ORDER BY number DESC"
    ).fetchone()
    if rng.random() < 0.5:
        notes = _other(notes, rng)
    else:
        manifest = _other(manifest, rng)
    digest = digest_of(b"%d %d " % (change, len(notes)), notes, manifest)
    connection.execute(
        "UPDATE generation SET notes = ?, manifest = ?, digest = ? WHERE number = ?", (notes, manifest, digest, number)
    )
    return f"generation {notes[:120]!r} {manifest[:120]!r}"


def _digest_journal(connection: sqlite3.Connection) -> None:
    """Make the chain of digests right again."""
    notes = connection.execute("SELECT notes FROM generation ORDER BY number DESC").fetchone()[0]
    try:
        chain = bytes.fromhex(json.loads(notes)[1])
    except (ValueError, TypeError, LookupError, RecursionError):  # They were changed.
        return
    query = (
        "SELECT change, outcome, number, query.digest FROM journal LEFT JOIN query USING (number) "
        "WHERE change > (SELECT max(number) FROM generation) ORDER BY change"
    )
    for change, outcome, _, own in connection.execute(query).fetchall():
        chain = chained(chain, change, outcome, own or b"")
        connection.execute("UPDATE journal SET digest = ? WHERE change = ?", (chain, change))


def _other(text: bytes, rng: random.Random) -> bytes:
    """JSON in which a part was replaced; sometimes no JSON."""
    if rng.random() < 0.05:
        return rng.choice((b"", b"{", b"\xff\xfe", b"[" * 3000, text[:-1]))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # It was changed before.
        return text
    if rng.random() < 0.1:
        return json.dumps(rng.choice(_VALUES)).encode()
    path: list[tuple[Any, Any]] = []
    node = value
    while isinstance(node, dict | list) and node and (not path or rng.random() < 0.6):
        key = rng.choice(sorted(node)) if isinstance(node, dict) else rng.randrange(len(node))
        path.append((node, key))
        node = node[key]
    if path:
        parent, key = path[-1]
        if rng.random() < 0.2:
            del parent[key]
        else:
            parent[key] = copy.deepcopy(rng.choice(_VALUES))
    return json.dumps(value).encode()
