"""A server is killed and its standby takes over: what was acknowledged and is lost, by the model.

One client sends queries, events of three kinds and new models to a server that a standby follows. What is checked is what is
promised: a change that the standby has followed is neither lost nor doubled.

In half of the cases the client waits until the standby is level with the server, which is then killed: the client goes on
with its next query, and sends nothing again. In the others the server is killed in the middle of a request: what it had
acknowledged and the standby had not seen is lost, and the client goes on from the last query that the standby has ranked. The
standby is then killed, too, and started again with the same command. At the end its model is compared with that of a service
in one process that nobody killed, bit for bit.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks._common import in_memory
from benchmarks._http import connectable, free_port
from online_rank.serving.durable import read_service
from online_rank.storage.files import to_bytes
from tests.campaigns.found import Found
from tests.campaigns.kills import command, forked
from tests.campaigns.kills_served import import_server
from tests.campaigns.kills_windows import COUNTED, Files, killed, models_in, quietly, send, serve, uninterrupted

#: Seconds after which the standby takes over.
_AFTER = 0.3
#: Seconds that a standby may take for anything.
_PATIENCE = 60.0


def kill_servers(n: int, seed: int = 0) -> Found:
    """Let standbys take the places of servers that were killed."""
    import_server()
    rng, found = random.Random(seed), Found()
    for number in range(n):
        found.add(_taken_over(rng, is_level=bool(number % 2)))
    return found


def _taken_over(rng: random.Random, is_level: bool) -> Found:
    with in_memory() as folder:
        files = models_in(folder)
        port, own = free_port(), free_port()
        server = forked(lambda: serve(folder / "server", port, files))
        connectable(port)
        standby = forked(lambda: _stand_by(folder / "standby", own, port))
        connectable(own)
        progress = [0]
        with _sending(port, files, progress) as stopped:
            _reached(progress, rng.randrange(1, 80))
            if is_level:
                stopped.set()
                _wait(lambda: stopped.is_idle() and _counts(own) == _counts(port))
            time.sleep(0.01 * rng.random())
            killed(server)
        _wait(lambda: "behind" not in _stats(own))
        # The last query that the standby has ranked may lack its feedback.
        begun = progress[0] if is_level else max(0, min(progress[0], _stats(own)["ranked"] - 1))
        again, progress = progress[0] - begun, [begun]
        with _sending(own, files, progress):
            _reached(progress, begun + rng.randrange(1, 40))
            time.sleep(0.01 * rng.random())
            killed(standby)
        standby = forked(lambda: _stand_by(folder / "standby", own, port))
        connectable(own)
        n = progress[0] + 3
        send(own, files.other, progress, threading.Event(), until=n)
        os.kill(standby, signal.SIGTERM)
        os.waitpid(standby, 0)
        taken, whole = read_service(folder / "standby"), uninterrupted(n, files)
    found = Found(takeovers=1, kills=2, queries=n, sent_again=again)
    found.expect(to_bytes(taken.model) == to_bytes(whole.model), "standby: another model than without kills")
    found.expect(all(taken.counts()[name] == whole.counts()[name] for name in COUNTED), "standby: other counts")
    return found


class _Sending(threading.Event):
    """Ends a client between two queries."""

    def __init__(self, client: threading.Thread) -> None:
        super().__init__()
        self._client = client

    def is_idle(self) -> bool:
        return not self._client.is_alive()


@contextlib.contextmanager
def _sending(port: int, files: Files, progress: list[int]) -> Any:
    """A client sends queries, until a server no longer answers."""
    client = threading.Thread(target=lambda: send(port, files.other, progress, stopped))
    stopped = _Sending(client)
    client.start()
    try:
        yield stopped
    finally:
        stopped.set()
        client.join()


def _reached(progress: list[int], goal: int) -> None:
    _wait(lambda: progress[0] >= goal, 0.001)


def _wait(until: Any, between: float = 0.02) -> None:
    """Raises TimeoutError if it does not come true."""
    end = time.monotonic() + _PATIENCE
    while not until():
        if time.monotonic() > end:
            raise TimeoutError("a server or a client made no progress")
        time.sleep(between)


def _stats(port: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/stats")
        return json.loads(connection.getresponse().read())["stats"]


def _counts(port: int) -> dict[str, int]:
    return {name: _stats(port)[name] for name in ("ranked", "accepted", *COUNTED)}


def _stand_by(place: Path, own: int, port: int) -> None:
    quietly()
    follow = ("--follow", f"http://127.0.0.1:{port}", "--take-over-after", f"{_AFTER}s")
    command(("serve", "--port", str(own), "--checkpoint", str(place), "--every", "50", *follow))
