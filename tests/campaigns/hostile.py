"""Hostile input: damaged text and requests, and files made by an attacker."""

import asyncio
import contextlib
import copy
import hashlib
import io
import json
import random
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks._http import JSON, Client, Server, bodies
from online_rank import PerceptronRanker, StreamScaler, read
from online_rank.query import Block, SparseRows
from online_rank.serving.messages import BINARY, BINARY_BEGINS
from online_rank.serving.protocol import RankingService
from online_rank.storage.archive import read_archive, write_archive
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream import ReadError
from online_rank.support import registry
from tests.campaigns.found import Found
from tests.campaigns.kills import letor_text, requests
from tests.models import BASES, arguments_of

HANG_SECONDS = 10


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


def fuzz(n_inputs: int, seed: int, seeds: list[bytes], feed: Callable[[bytes], bool]) -> Found:
    """Feed mutated seeds; `feed` returns whether the input was accepted, and raises on anything unexpected."""
    rng, found = random.Random(seed), Found(inputs=n_inputs)
    for _ in range(n_inputs):
        data = mutated(seeds, rng)
        try:
            with at_most(HANG_SECONDS):
                found.count(refused=not feed(data))
        except Exception as error:
            found.wrong.append(f"{type(error).__name__}: {error} on {data[:200]!r}")
    return found


def fuzz_letor(n_inputs: int, seed: int = 0) -> Found:
    import gzip

    text = letor_text(2).encode()
    seeds = [text, b"2 qid:1 1:0.5 2:1e-3 # docid = A\n0 qid:1 3:NULL\n\n# comment\n1 qid:2 1:-.5e2\n", gzip.compress(text)]

    def feed(data: bytes) -> bool:
        try:
            for x, y in read(io.BytesIO(data)):
                X = x.X if isinstance(x, Block) else x
                assert X.shape[0] == len(y)
                assert np.isfinite(X.values if isinstance(X, SparseRows) else X).all()
                assert (y >= 0).all()
        except ReadError as error:
            return not str(error)
        except ValueError as error:
            if "compressed" not in str(error):
                raise
            return False
        return True

    return fuzz(n_inputs, seed, seeds, feed)


def in_columns(requests: Iterable[dict[str, Any]]) -> list[bytes]:
    """The queries among requests in columns, with missing values, and in binary."""
    found = []
    for fields in requests:
        docs = fields.pop("docs", {})
        features = sorted({name for x in docs.values() for name in x})
        rows = [[x.get(name) for name in features] for x in docs.values()]
        head = {**fields, "features": features, "documents": [*docs]}
        if docs:
            values = np.array(rows, dtype="<f4").tobytes()
            found += [json.dumps({**head, "rows": rows}).encode(), BINARY_BEGINS + json.dumps(head).encode() + b"\n" + values]
    return found


def fuzz_protocol(n_inputs: int, seed: int = 0) -> Found:
    lines = requests(20, 1)
    service = RankingService(StreamScaler() | PerceptronRanker(), wait_bytes=8000)
    seeds = [
        *lines,
        *in_columns(map(json.loads, lines)),
        b'{"cmd": "stats"}',
        b'{"cmd": "save"}',
        b'{"id": 1, "docs": {}}',
        b'{"id": "x", "grades": {}}',
    ]
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
            service = from_bytes(to_bytes(RankingService(StreamScaler() | PerceptronRanker(), wait_bytes=8000)))
            before = hashlib.sha256(to_bytes(service)).digest()
        return not refused

    return fuzz(n_inputs, seed, seeds, feed)


#: MB by which the memory of a server may grow after a tenth of the bodies.
_MOST_GROWTH = 20.0


def fuzz_http(n_inputs: int, seed: int = 0) -> Found:
    """A server answers all mutated bodies, and its memory stays what it was."""
    rng, found = random.Random(seed), Found(bodies=n_inputs)
    seeds = [body.replace(b'"ID"', b"%d" % i, 1) for i, pair in enumerate(bodies(20, m=4, d=5)) for body in pair]
    seeds += in_columns(map(json.loads, seeds))

    async def send(server: Server, count: int) -> None:
        client = await Client.connect(server.port)
        for _ in range(count):
            path, kind = rng.choice(["/rank", "/learn", "/explain"]), rng.choice([JSON, BINARY])
            status, _ = await client.post(path, mutated(seeds, rng), kind)
            found.count(accepted=status == 200, refused=400 <= status < 500)
            found.expect(status < 500, f"seed {seed}: status {status}")
        client.close()

    with Server() as server:
        asyncio.run(send(server, n_inputs // 10))
        before = server.memory()
        asyncio.run(send(server, n_inputs - n_inputs // 10))
        grown = server.memory() - before
    found.expect(grown < _MOST_GROWTH, f"seed {seed}: memory grew by {grown:.0f} MB")
    return found


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
        if inspect.isabstract(cls) or cls in BASES or not issubclass(cls, QueryStep) or name_of(cls) is None:
            continue
        for x in (X, named):
            for given in arguments_of(cls):
                try:
                    model = cls(**given)
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
