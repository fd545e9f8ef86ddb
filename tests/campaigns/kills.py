"""Processes that are killed at random instants, and what they lose."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import online_rank
from benchmarks._common import in_memory
from online_rank import AdditiveRanker, PerceptronRanker, StreamScaler, read
from online_rank.cli import main as command
from online_rank.serving.durable import read_service
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import to_bytes
from online_rank.storage.saved import saved_state
from tests.campaigns.found import Found


def letor_text(n_queries: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for q in range(n_queries):
        X = rng.normal(size=(8, 5))
        y = np.digitize(X @ [1.0, -2.0, 0.5, 0.0, 0.0] + rng.normal(size=8), [0.5, 2.0])
        lines += [f"{y[i]} qid:{q} " + " ".join(f"{j + 1}:{X[i, j]:.5f}" for j in range(5)) for i in range(8)]
    return "\n".join(lines) + "\n"


def forked(body: Callable[[], None]) -> int:
    """Run `body` in a child process that has everything imported and compiled; returns its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        body()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    finally:
        os._exit(code)


def piped(body: Callable[[], None]) -> tuple[int, int, int]:
    """Run `body` in such a child, which reads and writes pipes: its id, where we write, and where we read."""
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()

    def talking() -> None:
        os.dup2(to_child, 0)
        os.dup2(from_child, 1)
        for end in (to_child, from_parent, to_parent, from_child):
            os.close(end)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        body()

    child = forked(talking)
    os.close(to_child)
    os.close(from_child)
    return child, from_parent, to_parent


def run_command(*arguments: str, out: Path) -> None:
    """The command line, its output in a file."""
    file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    command(arguments)


def kill_train(n_kills: int, seed: int = 0, options: tuple[str, ...] = ("--passes", "2")) -> Found:
    """Kill `train` again and again; compare with a run that nobody killed."""
    rng, found = random.Random(seed), Found()
    with in_memory() as place:
        (place / "train.txt").write_text(letor_text(400, seed))
        base = ("train", str(place / "train.txt"), "--json", "--every", "7", *options)

        def train(name: str) -> int:
            arguments = (*base, "--checkpoint", str(place / name), "--save", str(place / f"{name}.npz"))
            return forked(lambda: run_command(*arguments, out=place / f"{name}.json"))

        started = time.monotonic()
        assert os.waitpid(train("whole"), 0)[1] == 0
        usual = time.monotonic() - started
        expected = figures(place / "whole.json")
        round_ = 0
        while found.counts["kills"] < n_kills:
            round_ += 1
            while True:
                child = train(f"run{round_}")
                # Sooner than a whole run takes, so that several kills fall on each one; sometimes at once.
                patience = rng.choice([0.02, 0.3, 0.6]) * rng.random() * usual
                ended = wait(child, patience if found.counts["kills"] < n_kills else 60.0)
                if ended is None:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    found.count(kills=1)
                else:
                    assert ended == 0, f"train ended with {ended}"
                    break
            same = (place / f"run{round_}.npz").read_bytes() == (place / "whole.npz").read_bytes()
            found.expect(same, f"train {' '.join(options)}: another model after kills")
            found.expect(figures(place / f"run{round_}.json") == expected, f"train {' '.join(options)}: other figures")
    return found


def figures(path: Path) -> object:
    """What a run reports, without times and names."""
    report = json.loads(path.read_text())
    report.pop("saved")
    for one in report["passes"]:
        one.pop("elapsed")
    return report


def readable(descriptor: int, seconds: float) -> bool:
    """Wait until something can be read. Unlike `select.select`, for a descriptor of any number."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000.0 * seconds))


def wait(child: int, seconds: float) -> int | None:
    """The exit code of a child, or None if it still runs after some time."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            return None
        time.sleep(0.001)


def requests(n_queries: int, seed: int, feedback: Callable[[int, Any], dict[str, Any]] | None = None) -> list[bytes]:
    """Rankings and, some time after each, its grades, or other feedback."""
    rng = np.random.default_rng(seed)
    order: list[tuple[float, bytes]] = []
    for q in range(n_queries):
        docs = {f"d{i}": {f"f{j}": round(float(v), 4) for j, v in enumerate(rng.normal(size=4))} for i in range(6)}
        order.append((q, json.dumps({"id": q, "docs": docs}).encode()))
        order.append((q + 20.0 * rng.random(), json.dumps((feedback or graded)(q, docs)).encode()))
    return [line for _, line in sorted(order)]


def graded(number: int, docs: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Grades by the first feature."""
    return {"id": number, "grades": {name: int(max(0.0, 2.0 * features["f0"])) for name, features in docs.items()}}


def clicked(number: int, docs: dict[str, dict[str, float]]) -> dict[str, Any]:
    """A click on every document whose first feature is large."""
    return {"id": number, "clicks": [name for name, features in docs.items() if features["f0"] > 0.5]}


def learned_in(folder: Path) -> set[str | int]:
    """The ids that are known to be learned in the folder of a service."""
    with saved_state(folder) as saved:
        return {json.loads(query_id) for query_id, _, _ in saved.learned()}


def kill_stream(
    n_kills: int, seed: int = 0, n_queries: int = 400, feedback: Callable[[int, Any], dict[str, Any]] = graded
) -> Found:
    """Kill the service again and again; a client sends again what was not answered.

    With clicks, a ranking that is asked for again is drawn again, so only what was lost or learned twice is looked at.
    """
    rng, found = random.Random(seed), Found()
    model_of = ("--ranker", "swap") if feedback is clicked else ()
    while found.counts["kills"] < n_kills:
        lines = requests(n_queries, rng.randrange(1 << 30), feedback)
        whole = RankingService(AdditiveRanker("ndcg@10"))
        for line in lines if feedback is graded else ():
            whole.handle(line)
        with in_memory() as folder:
            place = folder / "state"
            model, answered, acks, ended = folder / "model.npz", 0, set(), False
            # Killed after its last answer, the service has all in its journal: another one brings it to the files.
            while not ended:
                limit = rng.randrange(1, 2 * len(lines) // 3) if found.counts["kills"] < n_kills else len(lines)
                arguments = ("stream", "--checkpoint", str(place), "--every", "50", "--save", str(model), *model_of)
                new, ended = talk(arguments, lines[answered:], limit, rng)
                acks.update(json.loads(line)["id"] for line in new if b'"learned":' in line)
                errors = [line for line in new if b'"error"' in line]
                assert not errors, errors[0]
                answered += len(new)
                found.count(kills=not ended)
            state = read_service(place)
            found.count(acknowledged=len(acks))
            learned = learned_in(place)
            found.expect(acks <= learned, f"stream: {len(acks - learned)} acknowledged are lost")
            found.expect(state.counts()["learned"] == len(learned), "stream: some were learned twice")
            same = feedback is not graded or to_bytes(state.model) == to_bytes(whole.model) == model.read_bytes()
            found.expect(same, "stream: another model than without kills")
    return found


def talk(arguments: tuple[str, ...], lines: list[bytes], limit: int, rng: random.Random) -> tuple[list[bytes], bool]:
    """Send requests to a service, and kill it soon after `limit` answers.

    Returns the answers that came through, and whether the service ended unasked, after the last one.
    """
    child, from_parent, to_parent = piped(lambda: command(arguments))
    received, sent = b"", 0
    window = rng.randrange(1, 40)
    deadline = time.monotonic() + 120
    try:
        while time.monotonic() < deadline:
            answers = received.count(b"\n")
            if answers >= limit and answers < len(lines):
                break
            while sent < len(lines) and sent - answers < window:
                os.write(from_parent, lines[sent] + b"\n")
                sent += 1
            if answers == len(lines):
                os.close(from_parent)
                assert wait(child, 60) == 0
                return received.splitlines(), True
            if readable(to_parent, 1.0):
                data = os.read(to_parent, 1 << 16)
                assert data, "the service ended"
                received += data
        time.sleep(rng.random() * 0.003)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while data := os.read(to_parent, 1 << 16):
            received += data
        os.close(from_parent)
        return received[: received.rfind(b"\n") + 1].splitlines(), False
    finally:
        os.close(to_parent)


def warm_up() -> None:
    """Compile everything once, so that children do not."""
    root = Path(online_rank.__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.txt").write_text(letor_text(20))
        for extra in ((), ("--shuffle", "1")):
            # In a separate process: a fork of one that has threads may not compile.
            command_line = [sys.executable, "-m", "online_rank", "train", f"{folder}/train.txt", "--json", *extra]
            subprocess.run(command_line, check=True, capture_output=True, cwd=root)
        learning = [sys.executable, "-m", "online_rank", "stream", "--ranker", "swap"]
        subprocess.run(learning, input=b"\n".join(requests(20, 0, clicked)), check=True, capture_output=True, cwd=root)
        model = StreamScaler() | PerceptronRanker()
        for _ in range(3):
            model.learn_one(np.ones((3, 2)), [0, 1, 2])
            model.rank_one(np.ones((3, 2)))
        list(read(f"{folder}/train.txt"))
        service = RankingService(AdditiveRanker("ndcg@10"))
        for line in requests(20, 0):
            service.handle(line)
