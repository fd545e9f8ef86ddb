"""Does anything get lost, in? Processes killed at random instants, damaged and hostile input, and a long run.

    python -m benchmarks.reliability [--kills 50] [--inputs 100000] [--queries 1000000] [--seed 0]

- `train` and `stream` are killed (SIGKILL) at random instants and started again until they are done; the model must be bit for
  bit that of a run that nobody killed, with the same figures, and every grade that was acknowledged must have been learned.
- Mutated and random bytes go to the LETOR reader, the JSON protocol and the model loader. Anything but an answer or the
  documented error is a crash; more than ten seconds is a hang; a refused input must leave no trace.
- A ranker behind a scaler learns from a long stream: the memory of the process, and the time of one query (rank and learn).
"""

import contextlib
import hashlib
import io
import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._common import environment, parser, save, table
from online_rank import PerceptronRanker, StreamScaler
from online_rank.cli import main as command
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import ModelFileError, from_bytes, to_bytes
from online_rank.stream.letor import LetorError, iter_letor

HANG_SECONDS = 10


class Kills(NamedTuple):
    kills: int
    same_model: bool
    same_figures: bool


class StreamKills(NamedTuple):
    kills: int
    acknowledged: int
    lost: int
    same_model: bool


class Fuzz(NamedTuple):
    inputs: int
    refused: int
    crashes: list[str]


class Soak(NamedTuple):
    queries: int
    growth_mb: float
    percentiles: dict[str, float]


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


def run_command(*arguments: str, out: Path) -> None:
    """The command line, its output in a file."""
    file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    command(arguments)


def kill_train(n_kills: int, seed: int = 0, options: tuple[str, ...] = ("--passes", "2")) -> Kills:
    """Kill `train` again and again; compare with a run that nobody killed."""
    rng = random.Random(seed)
    kills, same_model, same_figures = 0, True, True
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "train.txt").write_text(letor_text(400, seed))
        base = ("train", str(place / "train.txt"), "--json", "--every", "7", *options)

        def train(name: str) -> int:
            arguments = (*base, "--checkpoint", str(place / name), "--resume", "--save", str(place / f"{name}.npz"))
            return forked(lambda: run_command(*arguments, out=place / f"{name}.json"))

        started = time.monotonic()
        assert os.waitpid(train("whole"), 0)[1] == 0
        usual = time.monotonic() - started
        expected = figures(place / "whole.json")
        round_ = 0
        while kills < n_kills:
            round_ += 1
            while True:
                child = train(f"run{round_}")
                # Sooner than a whole run takes, so that several kills fall on each one; sometimes at once.
                ended = wait(child, rng.choice([0.02, 0.3, 0.6]) * rng.random() * usual if kills < n_kills else 60.0)
                if ended is None:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    kills += 1
                else:
                    assert ended == 0, f"train ended with {ended}"
                    break
            same_model &= (place / f"run{round_}.npz").read_bytes() == (place / "whole.npz").read_bytes()
            same_figures &= figures(place / f"run{round_}.json") == expected
    return Kills(kills, same_model, same_figures)


def figures(path: Path) -> object:
    """What a run reports, without times and names."""
    report = json.loads(path.read_text())
    for name in ("queries_per_second", "saved"):
        report.pop(name)
    for one in report["passes"]:
        one.pop("elapsed")
    return report


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


def requests(n_queries: int, seed: int) -> list[bytes]:
    """Rankings and, some time after each, its grades."""
    rng = np.random.default_rng(seed)
    order: list[tuple[float, bytes]] = []
    for q in range(n_queries):
        docs = {f"d{i}": {f"f{j}": round(float(v), 4) for j, v in enumerate(rng.normal(size=4))} for i in range(6)}
        grades = {name: int(max(0.0, 2.0 * features["f0"])) for name, features in docs.items()}
        order.append((q, json.dumps({"id": q, "docs": docs}).encode()))
        order.append((q + 20.0 * rng.random(), json.dumps({"id": q, "grades": grades}).encode()))
    return [line for _, line in sorted(order)]


def kill_stream(n_kills: int, seed: int = 0, n_queries: int = 400) -> StreamKills:
    """Kill the service again and again; a client sends again what was not answered."""
    rng = random.Random(seed)
    kills, acknowledged, lost, same = 0, 0, 0, True
    while kills < n_kills:
        lines = requests(n_queries, rng.randrange(1 << 30))
        whole = RankingService(StreamScaler() | PerceptronRanker("ndcg@10"))
        for line in lines:
            whole.handle(line)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "state"
            model, answered, acks, ended = Path(folder) / "model.npz", 0, set(), False
            # Killed after its last answer, the service has all in its journal: another one brings it to the files.
            while not ended:
                limit = rng.randrange(1, 2 * len(lines) // 3) if kills < n_kills else len(lines)
                arguments = ("stream", "--checkpoint", str(place), "--every", "50", "--save", str(model))
                new, ended = talk(arguments, lines[answered:], limit, rng)
                acks.update(json.loads(line)["id"] for line in new if b'"learned":' in line)
                errors = [line for line in new if b'"error"' in line]
                assert not errors, errors[0]
                answered += len(new)
                kills += not ended
            state = from_bytes((place / "checkpoint.npz").read_bytes())
            acknowledged += len(acks)
            lost += len(acks - set(state._learned))
            same &= to_bytes(state.model) == to_bytes(whole.model) == model.read_bytes()
    return StreamKills(kills, acknowledged, lost, same)


def talk(arguments: tuple[str, ...], lines: list[bytes], limit: int, rng: random.Random) -> tuple[list[bytes], bool]:
    """Send requests to a service, and kill it soon after `limit` answers.

    Returns the answers that came through, and whether the service ended by itself, after the last one.
    """
    to_child, from_parent = os.pipe()
    to_parent, from_child = os.pipe()

    def serve() -> None:
        os.dup2(to_child, 0)
        os.dup2(from_child, 1)
        for end in (to_child, from_parent, to_parent, from_child):
            os.close(end)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        command(arguments)

    child = forked(serve)
    os.close(to_child)
    os.close(from_child)
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
            if select.select([to_parent], [], [], 1.0)[0]:
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


def mutated(seeds: list[bytes], rng: random.Random) -> bytes:
    """A seed with a few bytes changed, cut, repeated or replaced by what breaks parsers."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = rng.choice(JUNK)
        elif kind == 2:
            del data[at : at + rng.randrange(1, 20)]
        elif kind == 3:
            data[at:at] = data[at : at + rng.randrange(1, 60)]
        elif kind == 4 and at < len(data):
            data[at] = rng.randrange(256)
        else:
            del data[at : None if rng.random() < 0.3 else at + 1]
    return bytes(data)


JUNK = [
    *(b"\x00", b"\xff", b"\n", b"\r", b" ", b":", b"-", b"#", b"qid:", b"nan", b"inf", b"1e999", b"-1", b"9" * 400, b"0x1p3"),
    *(b"{", b"}", b"[" * 3000, b'"', b"\\ud800", b"null", b"true", b"NaN", b"1e-400", b'{"id":', b'"grades":{}', b"1_0"),
    *(b"PK\x03\x04", b"\x1f\x8b\x08", b"\x80\x04\x95", b"NULL", b"65537:1", b"99999999999999999999:1"),
]


@contextlib.contextmanager
def at_most(seconds: int):
    """Raise TimeoutError in what takes longer."""

    def expired(*_: object) -> None:
        raise TimeoutError("hang")

    signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def fuzz(n_inputs: int, seed: int, seeds: list[bytes], feed: Callable[[bytes], bool]) -> Fuzz:
    """Feed mutated seeds; `feed` returns whether the input was accepted, and raises on anything unexpected."""
    rng = random.Random(seed)
    refused, crashes = 0, []
    for _ in range(n_inputs):
        data = mutated(seeds, rng)
        try:
            with at_most(HANG_SECONDS):
                refused += not feed(data)
        except Exception as error:
            crashes.append(f"{type(error).__name__}: {error} on {data[:200]!r}")
    return Fuzz(n_inputs, refused, crashes)


def fuzz_letor(n_inputs: int, seed: int = 0) -> Fuzz:
    import gzip

    text = letor_text(2).encode()
    seeds = [text, b"2 qid:1 1:0.5 2:1e-3 # docid = A\n0 qid:1 3:NULL\n\n# comment\n1 qid:2 1:-.5e2\n", gzip.compress(text)]

    def feed(data: bytes) -> bool:
        try:
            for X, y in iter_letor(io.BytesIO(data)):
                assert X.shape == (len(y), X.shape[1])
                assert np.isfinite(X).all()
                assert (y >= 0).all()
        except LetorError as error:
            return not str(error)
        return True

    return fuzz(n_inputs, seed, seeds, feed)


def fuzz_protocol(n_inputs: int, seed: int = 0) -> Fuzz:
    lines = requests(20, 1)
    service = RankingService(StreamScaler() | PerceptronRanker(), max_pending=5, max_learned=5)
    seeds = [*lines, b'{"cmd": "stats"}', b'{"cmd": "save"}', b'{"id": 1, "docs": {}}', b'{"id": "x", "grades": {}}']
    before = hashlib.sha256(to_bytes(service)).digest()

    def feed(data: bytes) -> bool:
        nonlocal service, before
        reply = service.handle(data, 7)
        json.dumps(reply.answer, allow_nan=False)
        refused = "error" in reply.answer
        assert not (refused and reply.changed)
        after = hashlib.sha256(to_bytes(service)).digest()
        assert not refused or after == before, "a refused request changed the service"
        before = after
        if service.model.steps["StreamScaler"].n_features > 60:
            service = from_bytes(to_bytes(RankingService(StreamScaler() | PerceptronRanker(), max_pending=5, max_learned=5)))
            before = hashlib.sha256(to_bytes(service)).digest()
        return not refused

    return fuzz(n_inputs, seed, seeds, feed)


def fuzz_models(n_inputs: int, seed: int = 0) -> Fuzz:
    """Mutated files, in half of them with the checksum made good again, so that the checks behind it are reached."""
    model = StreamScaler() | PerceptronRanker()
    rng = np.random.default_rng(seed)
    for _ in range(5):
        model.learn_one(rng.normal(size=(4, 3)), rng.integers(0, 3, 4))
    named = PerceptronRanker()
    named.learn_one({"a": {"x": 1.0}, "b": {"y": 2.0}}, {"a": 1, "b": 0})
    seeds = [to_bytes(model), to_bytes(named)]
    coin = random.Random(seed)

    def feed(data: bytes) -> bool:
        if coin.random() < 0.5:
            data = data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()
        try:
            again = from_bytes(data)
        except ModelFileError as error:
            return not str(error)
        with contextlib.suppress(ValueError, TypeError):
            again.predict_one(np.ones((2, 3)))
            again.learn_one(np.ones((2, 3)), [0, 1])
        return True

    return fuzz(n_inputs, seed, seeds, feed)


def resident_mb() -> float:
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def soak(n_queries: int, seed: int = 0) -> Soak:
    """Rank and learn from a long stream; memory is compared with that after a tenth of it."""
    rng = np.random.default_rng(seed)
    pool = [(rng.normal(size=(m, 46)), rng.integers(0, 3, m)) for m in rng.integers(5, 40, 500)]
    model = StreamScaler() | PerceptronRanker()
    nanoseconds = np.empty(n_queries, dtype=np.int64)
    nanoseconds[:] = 0
    warm = 0.0
    for t in range(n_queries):
        X, y = pool[t % len(pool)]
        start = time.perf_counter_ns()
        model.rank_one(X)
        model.learn_one(X, y)
        nanoseconds[t] = time.perf_counter_ns() - start
        if t == n_queries // 10:
            warm = resident_mb()
    growth = resident_mb() - warm
    steady = nanoseconds[n_queries // 10 :] / 1e3
    return Soak(n_queries, growth, {f"p{p:g}": float(np.percentile(steady, p)) for p in (50, 99, 99.9)})


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--kills", type=int, default=50, help="kills of each of train and stream")
    options.add_argument("--inputs", type=int, default=100_000, help="inputs fuzzed, in all")
    options.add_argument("--queries", type=int, default=1_000_000, help="length of the long run")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    warm_up()
    rows: list[tuple[object, ...]] = []
    for name, extra in (("train, 2 passes", ("--passes", "2")), ("train --seed", ("--seed", "1"))):
        k = kill_train(given.kills, given.seed, extra)
        rows.append((f"{name}: killed / same model / same figures", k.kills, yes(k.same_model), yes(k.same_figures)))
    s = kill_stream(given.kills, given.seed)
    rows.append(("stream: killed / grades acknowledged / lost", s.kills, f"{s.acknowledged:,}", s.lost))
    rows.append(("stream: same model as without kills", "", yes(s.same_model), ""))
    crashes: list[str] = []
    for name, run in (("LETOR text", fuzz_letor), ("JSON lines", fuzz_protocol), ("model files", fuzz_models)):
        f = run(given.inputs // 3 + 1, given.seed)
        crashes += f.crashes
        rows.append((f"{name}: inputs / refused / crashes and hangs", f"{f.inputs:,}", f"{f.refused:,}", len(f.crashes)))
    long = soak(given.queries, given.seed)
    rows.append(("long run: queries / growth of memory, MB", f"{long.queries:,}", f"{long.growth_mb:.2f}", ""))
    rows.append(("rank and learn, µs: " + " / ".join(long.percentiles), *(f"{v:.1f}" for v in long.percentiles.values())))
    save("reliability", f"# Reliability\n\n{table(('what', '1', '2', '3'), rows)}\n\n{environment()}")
    for crash in crashes[:20]:
        print(crash)


def warm_up() -> None:
    """Compile everything once, so that children do not."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.txt").write_text(letor_text(20))
        for extra in ((), ("--seed", "1")):
            child = forked(lambda e=extra: run_command("train", f"{folder}/train.txt", "--json", *e, out=Path(folder) / "out"))
            assert os.waitpid(child, 0)[1] == 0
        soak(20)
        list(iter_letor(f"{folder}/train.txt"))
        service = RankingService(StreamScaler() | PerceptronRanker("ndcg@10"))
        for line in requests(20, 0):
            service.handle(line)


def yes(value: bool) -> str:
    return "yes" if value else "NO"


if __name__ == "__main__":
    main()
