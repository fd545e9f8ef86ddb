"""A server whose feedback comes in many events is killed again and again, and its model replaced: what it lost, by the model.

One client sends queries, events of three kinds, repeated and corrected ones, and new models. Where it gets no answer it sends
all of that query again. A challenger takes the place of the model that the server begins with. At the end the model
is compared with the model of a service in one process that nobody killed, bit for bit.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks._common import in_memory
from benchmarks._http import connectable, free_port
from online_rank import PerceptronRanker, StreamScaler, load, save
from online_rank.cli import service as cli_service
from online_rank.serving import Challenge, FeedbackPlan, RankingService
from online_rank.serving.durable import read_service
from online_rank.storage.files import to_bytes
from tests.campaigns.found import Found
from tests.campaigns.kills import command, forked
from tests.campaigns.kills_served import import_server

_WINDOW = 25.0
_EVENTS = {"click": 1, "like": 2, "purchase": 3}
#: The number of queries after which the model is replaced.
_REPLACED = 40
_PROMOTE_AT = 0.6
#: What must be counted as without kills.
COUNTED = ("learned", "late", "unanswered", "expired")


class Files(NamedTuple):
    """Models: that the server begins with, its challenger, and that which takes their place."""

    first: Path
    challenger: Path
    other: Path


def kill_windows(n_kills: int, seed: int = 0) -> Found:
    """Kill a server in the middle of events, rankings and replacements."""
    import_server()
    rng = random.Random(seed)
    with in_memory() as folder:
        files = models_in(folder)
        done, port = 0, free_port()
        for _ in range(n_kills):
            child = forked(lambda: serve(folder / "state", port, files))
            connectable(port)
            stopped = threading.Event()
            progress = [done]
            client = threading.Thread(target=send, args=(port, files.other, progress, stopped))
            client.start()
            goal, patience = done + rng.randrange(1, 30), time.monotonic() + 30.0
            while progress[0] < goal and time.monotonic() < patience:
                time.sleep(0.001)
            time.sleep(0.01 * rng.random())
            killed(child)
            stopped.set()
            client.join()
            done = progress[0]
        child = forked(lambda: serve(folder / "state", port, files))
        connectable(port)
        send(port, files.other, [done], threading.Event(), until=done + 3)
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        served, whole = read_service(folder / "state"), uninterrupted(done + 3, files)
    n_events = sum(path == "/learn" for i in range(done + 3) for path, _ in _requests(i))
    promoted = served.challenge is None and whole.challenge is None
    found = Found(kills=n_kills, queries=done + 3, events=n_events, models_replaced=(done + 2) // _REPLACED)
    found.count(challengers_promoted=promoted)
    found.expect(to_bytes(served.model) == to_bytes(whole.model), "events: another model than without kills")
    found.expect(all(served.counts()[name] == whole.counts()[name] for name in COUNTED), "events: other counts")
    return found


def killed(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _requests(i: int) -> Iterator[tuple[str, bytes]]:
    """What is sent about a query, in order."""
    rng = random.Random(i)
    at = 10.0 * i
    docs = {f"d{j}": {"x": rng.gauss(0, 1), "y": rng.gauss(0, 1)} for j in range(6)}
    yield "/rank", json.dumps({"id": i, "docs": docs, "ts": at}).encode()
    for k in range(rng.randrange(5)):
        best = max(docs, key=lambda name: docs[name]["x"])
        doc = best if rng.random() < 0.7 else f"d{rng.randrange(6)}"
        event = {"id": i, "event": rng.choice([*_EVENTS]), "doc": doc, "ts": at + 0.1 + k}
        for _ in range(rng.choice((1, 1, 2))):
            yield "/learn", json.dumps(event).encode()
    if rng.random() < 0.3:
        yield "/learn", json.dumps({"id": i, "grades": {"d0": 2}, "ts": at + 6.0}).encode()


def send(port: int, file: Path, progress: list[int], stopped: threading.Event, until: int | None = None) -> None:
    """Send queries from the first that was not answered in full; `progress` is the number of those that were."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def post(path: str, body: bytes, kind: str = "application/json") -> None:
        connection.request("POST", path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content!r}")

    with contextlib.suppress(OSError, http.client.HTTPException):
        i = progress[0]
        while not stopped.is_set() and i != until:
            for path, body in _requests(i):
                post(path, body)
            if i and i % _REPLACED == 0:
                post("/model", file.read_bytes(), "application/octet-stream")
            elif until is not None:
                post("/rank", b'{"cmd": "save"}')
            i += 1
            # A ranking is on the disk with the next feedback, and is sent again if a kill comes before that.
            if path != "/rank" or until is not None or (i > 1 and (i - 1) % _REPLACED == 0):
                progress[0] = i
    connection.close()


def uninterrupted(n: int, files: Files) -> RankingService:
    plan = FeedbackPlan(window=_WINDOW, events=_EVENTS)
    challenge = Challenge(load(files.challenger), promote_at=_PROMOTE_AT)
    service = RankingService(load(files.first), plan=plan, challenge=challenge)
    for i in range(n):
        for _, body in _requests(i):
            service.handle(body)
        if i and i % _REPLACED == 0:
            service.replace_model(load(files.other), service.origin)
    return service


def models_in(folder: Path) -> Files:
    """The models, written to a folder."""
    files = Files(*(folder / f"{name}.npz" for name in ("first", "challenger", "other")))
    for file, sign in zip(files, (-1, 1, 1), strict=True):
        save(_trained(sign, 200 if sign < 0 else 50), file)
    return files


def _trained(sign: int, n: int) -> object:
    """A model that ranks by x, or by -x."""
    model = StreamScaler() | PerceptronRanker()
    for i in range(n):
        rng = random.Random(i)
        docs = {f"d{j}": {"x": rng.gauss(0, 1), "y": rng.gauss(0, 1)} for j in range(6)}
        model.learn_one(docs, {name: int(sign * features["x"] > 0) for name, features in docs.items()})
    return model


def serve(place: Path, port: int, files: Files) -> None:
    quietly()
    events = [part for name, value in _EVENTS.items() for part in ("--event", f"{name}={value}")]
    where = (str(files.first), "--port", str(port), "--checkpoint", str(place), "--every", "50")
    challenged = ("--challenger", str(files.challenger))
    # In a separate process: a promotion has to come within the queries between two replacements.
    cli_service.SURE = _PROMOTE_AT
    command(("serve", *where, *challenged, "--feedback-window", str(_WINDOW), *events, "--examination", "none"))


def quietly() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
