"""Hostile input: damaged bytes, files made by an attacker, and requests made to take memory or time."""

import contextlib
import copy
import hashlib
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks._kills import forked, letor_text, requests
from online_rank import PerceptronRanker, StreamScaler
from online_rank.serving.protocol import RankingService
from online_rank.storage.archive import read_archive, write_archive
from online_rank.storage.files import ModelFileError, from_bytes, to_bytes
from online_rank.stream.letor import LetorError, iter_letor, read_letor
from online_rank.support import registry

HANG_SECONDS = 10


class Fuzz(NamedTuple):
    inputs: int
    refused: int
    crashes: list[str]


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
    """Raise TimeoutError in what takes more seconds of processor time: others may use the machine.

    What numba is compiling when they are over gets as many again: a kernel that is in no file takes long, but only once.
    """

    def expired(_: int, frame: Any) -> None:
        if not _is_compiling(frame):
            raise TimeoutError("hang")
        signal.setitimer(signal.ITIMER_PROF, seconds)

    signal.signal(signal.SIGPROF, expired)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _is_compiling(frame: Any) -> bool:
    """Whether a frame, or one that called it, is numba's compiler."""
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("numba.core."):
        frame = frame.f_back
    return frame is not None


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


class Structural(NamedTuple):
    files: int
    loaded: int
    peak_mb: float
    largest_file: int
    crashes: list[str]


def structural(n_files: int, seed: int = 0) -> Structural:
    """Model files whose tree or arrays were changed, with good checksums, are loaded and used, under bounds checks.

    In a process of its own: numba checks bounds only where it was told to before it compiled.
    """
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": os.environ.get("CHECKED_CACHE", cache)}
        # River's Rust panics at some bytes, which is caught; its traces would read 44 MB of symbols.
        environment["RUST_BACKTRACE"] = "0"
        arguments = [sys.executable, "-m", "benchmarks._hostile", str(n_files), str(seed)]
        done = subprocess.run(arguments, env=environment, capture_output=True, check=False)
    if done.returncode:
        end = done.stderr.decode()[-300:]
        return Structural(n_files, 0, 0.0, 0, [f"the process ended with {done.returncode}: {end}"])
    return Structural(**json.loads(done.stdout.splitlines()[-1]))


def models() -> Iterator[tuple[bytes, Any]]:
    """Files of trained models of every listed class that learns, and what each is used with."""
    import inspect

    from online_rank.base.step import QueryStep
    from online_rank.storage.objects import name_of

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 3)), [0, 1, 2, 1, 0]
    named = [{f"f{j}": value for j, value in enumerate(row)} for row in X.tolist()]
    for name in registry.classes():
        cls = registry.public_class(name)
        if inspect.isabstract(cls) or not issubclass(cls, QueryStep) or name_of(cls) is None:
            continue
        try:
            parameters = [*getattr(cls, "_unit_test_params", lambda: [{}])()]
        except ImportError:  # Torch is not here.
            continue
        for x in (X, named):
            for given in parameters:
                model = cls(**given)
                try:
                    to_bytes(model)
                except TypeError:  # It holds a function or a module, which no file does.
                    continue
                try:
                    for _ in range(3):
                        model.learn_one(x, y)
                except ValueError:  # It says itself which features there are.
                    continue
                yield to_bytes(model), x
    model = StreamScaler() | PerceptronRanker()
    model.learn_one(X, y)
    yield to_bytes(model), X


JUNK_NODES = [
    *(
        None,
        True,
        -1,
        0,
        1,
        2,
        3,
        7,
        40,
        2**31,
        2**62,
        10**30,
        1e300,
        -1e-300,
        0.5,
        "",
        "x",
        "ndcg@3",
        "delta",
        [],
        {},
        [1],
        [[1]],
    ),
    *({"array": 0}, {"array": 1}, {"tuple": []}, {"tuple": [3]}, {"dict": [[], []]}, {"float": "nan"}, {"float": "inf"}),
    *({"scalar": ["<f8", "000000000000f87f"]}, {"columns": ["a", "b", "c"]}, {"text": 0}, {"deque": [1], "maxlen": 2}),
]


def changed(content: bytes, rng: random.Random) -> bytes:
    """A model file with one to three parts of its tree, or of its arrays, replaced."""
    members = [(name, bytes(data)) for name, data in read_archive(content)]
    header = json.loads(members[0][1])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.45 and len(members) > 1:
            i = rng.randrange(1, len(members))
            members[i] = (members[i][0], _npy(_other_array(np.load(io.BytesIO(members[i][1])), rng)))
        else:
            _change_node(header, rng)
    members[0] = (members[0][0], json.dumps(header).encode())
    return write_archive(members)


def _change_node(header: dict, rng: random.Random) -> None:
    path: list[tuple[Any, Any]] = []
    node = header["object"]
    while isinstance(node, dict | list) and node and (not path or rng.random() < 0.8):
        key = rng.choice(sorted(node)) if isinstance(node, dict) else rng.randrange(len(node))
        path.append((node, key))
        node = node[key]
    if not path:
        return
    parent, key = path[-1]
    if isinstance(parent, dict) and rng.random() < 0.15:
        del parent[key]
    elif type(parent[key]) in (int, float) and rng.random() < 0.5:
        parent[key] = parent[key] + rng.choice((-1, 1, 0.5, 10, -10))
    else:
        parent[key] = copy.deepcopy(rng.choice(JUNK_NODES))


@np.errstate(all="ignore")
def _other_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    kind = rng.randrange(8)
    if kind == 0:
        return np.zeros(rng.choice([(0,), (1,), (1, 0), (0, 10), (2, 2), (3,), (4,), (3, 200), (1, 10), ()]), array.dtype)
    if kind == 1:
        return array.astype(rng.choice(["f4", "f8", "i8", "u1", ">f8", "?", "u8"]))
    if kind == 2:
        return array.reshape(-1)
    if kind == 3:
        return np.concatenate([array, array]) if array.ndim else array
    other = array.copy().reshape(-1)
    if other.size:
        value = rng.choice([np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, -1e308, 5e-324, 1e18, 201.0])
        if kind == 4:
            other[:] = np.asarray(value).astype(other.dtype)
        else:
            other[rng.randrange(other.size)] = np.asarray(value).astype(other.dtype)
    return other.reshape(array.shape)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def use(model: Any, x: Any) -> None:
    """All that a model is for. Raises only what is documented for bad input."""
    for act in (
        lambda: model.predict_one(x) if hasattr(model, "predict_one") else model.transform_one(x),
        lambda: model.learn_one(x, [0, 1, 2, 1, 0]),
        lambda: model.learn_one(x, [2, 1, 0, 0, 0]),
        lambda: model.rank_one(x) if hasattr(model, "rank_one") else model.transform_one(x),
        lambda: getattr(model, "last_round", None),
        lambda: to_bytes(model),
    ):
        with contextlib.suppress(ValueError, TypeError):
            act()


def check_structural(n_files: int, seed: int) -> Structural:
    """The campaign of `structural`, in this process."""
    seeds = list(models())
    for content, x in seeds:
        use(from_bytes(content), x)
    largest = max(len(content) for content, _ in seeds)
    # Other settings call for other kernels: what compiling them takes is not what files take.
    load_and_use(seeds, n_files // 10, random.Random(seed + 1))
    before = peak_resident()
    longest, loaded, crashes = load_and_use(seeds, n_files, random.Random(seed))
    return Structural(n_files, loaded, (peak_resident() - before) / 1e6, max(largest, longest), crashes)


def load_and_use(seeds: Sequence[tuple[bytes, Any]], n_files: int, rng: random.Random) -> tuple[int, int, list[str]]:
    """Length of the longest of `n_files` changed files, how many could be loaded, and what went wrong."""
    longest, loaded, crashes = 0, 0, []
    for number in range(n_files):
        content, x = rng.choice(seeds)
        data = changed(content, rng)
        longest = max(longest, len(data))
        try:
            with at_most(HANG_SECONDS), np.errstate(all="ignore"):
                try:
                    model = from_bytes(data)
                except ModelFileError:
                    continue
                loaded += 1
                use(model, x)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            crashes.append(f"file {number}: {type(error).__name__}: {error}"[:300])
    return longest, loaded, crashes


def peak_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Cost(NamedTuple):
    what: str
    input_bytes: int
    bytes_a_byte: float
    seconds_a_100_kb: float


def costs() -> list[Cost]:
    """The worst inputs that were found, each three times in processes of their own: most memory, least time."""
    found = []
    # Kernels that are loaded here are not counted there.
    service = RankingService(StreamScaler() | PerceptronRanker())
    for line in (b'{"id":1,"docs":{"a":{"f":1},"b":{"f":2}}}', b'{"id":1,"grades":{"a":1,"b":0}}'):
        service.handle(line)
    for name, (data, feed) in worst_inputs().items():
        taken, seconds = zip(*(cost(data, feed) for _ in range(3)), strict=True)
        found.append(Cost(name, len(data), max(taken) / len(data), min(seconds) / len(data) * 1e5))
    return found


def cost(data: bytes, feed: Callable[[bytes], None]) -> tuple[float, float]:
    """Bytes of memory and seconds that an input takes, in a process of its own; infinite if that dies."""
    reader, writer = os.pipe()

    def act() -> None:
        before, start = peak_resident(), time.perf_counter()
        feed(data)
        seconds = time.perf_counter() - start
        os.write(writer, json.dumps([peak_resident() - before, seconds]).encode())

    child = forked(act)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, "rb") as answer:
        text = answer.read()
    return tuple(json.loads(text)) if text else (float("inf"), float("inf"))


def worst_inputs() -> dict[str, tuple[bytes, Callable[[bytes], None]]]:
    """Inputs made to take memory or time, by name."""

    def ask(data: bytes) -> None:
        service = RankingService(StreamScaler() | PerceptronRanker())
        for line in data.split(b"\n"):
            service.handle(line)

    def read(data: bytes) -> None:
        with contextlib.suppress(LetorError):
            for _ in iter_letor(io.BytesIO(data)):
                pass

    def group(data: bytes) -> None:
        with contextlib.suppress(LetorError):
            list(iter_letor(io.BytesIO(data), repeated_qid="group"))

    def read_at_once(data: bytes) -> None:
        with contextlib.suppress(LetorError):
            read_letor(io.BytesIO(data))

    def load(data: bytes) -> None:
        with contextlib.suppress(ModelFileError):
            from_bytes(data)

    def model(part: bytes, n: int) -> bytes:
        text = b'{"format":"online_rank","version":1,"object":[' + part * n + b"0]}"
        return write_archive([("header.json", text)])

    def docs(n: int, features: str) -> bytes:
        return ('{"id":1,"docs":{' + ",".join(f'"{i}":{{{features.replace("N", str(i))}}}' for i in range(n)) + "}}").encode()

    grades = '{"id":1,"grades":{' + ",".join(f'"{i}":{i % 5}' for i in range(50_000)) + "}}"
    keys = ",".join(f'"k{i}":0' for i in range(40_000))
    return {
        "JSON: documents without features": (docs(60_000, ""), ask),
        "JSON: a feature of its own for each document": (docs(16_000, '"fN":1'), ask),
        "JSON: one document with 50,000 features": (('{"id":1,"docs":{"a":{' + keys + "}}}").encode(), ask),
        "JSON: many documents, then their grades": (docs(50_000, '"f":1') + b"\n" + grades.encode(), ask),
        "JSON: a repeated key": (f'{{"id":1,"grades":{{{keys},"k39999":1}}}}'.encode(), ask),
        "JSON: brackets": (b"[" * 500_000, ask),
        "JSON: empty lists": (b"[" + b"[]," * 200_000 + b"0]", ask),
        "JSON: empty lists, read twice": (b'{"id":[' + b"[]," * 200_000 + b'{"b":1}]}', ask),
        "LETOR: 65536:1": (b"1 qid:7 65536:1\n" * 8_000, read),
        "LETOR: 65536:1, grouped": (b"1 qid:7 65536:1\n" * 8_000, group),
        "LETOR: 65536:1, read at once": (b"1 qid:7 65536:1\n" * 8_000, read_at_once),
        "LETOR: as many features as are let through": (b"1 qid:7 51:1\n" * 80_000, read_at_once),
        "LETOR: a query a line": (b"".join(b"1 qid:%d 1:1\n" % i for i in range(60_000)), read),
        "model: empty lists": (model(b"[],", 300_000), load),
        "model: numbers": (model(b"1.5,", 300_000), load),
        "model: tags": (model(b'{"tuple":[]},', 100_000), load),
    }


if __name__ == "__main__":
    print(json.dumps(check_structural(int(sys.argv[1]), int(sys.argv[2]))._asdict()))
