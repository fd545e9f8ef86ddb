"""What is fuzzed: functions of bytes that come from outside. Each returns, or raises only what its reader documents.

`corpus/TARGET/` holds small inputs to begin with, among them those that once failed. `test_fuzz.py` runs all of them;
`python -m tests.fuzz` looks for others with Atheris.
"""

import asyncio
import functools
import hashlib
import io
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from uvicorn.server import ServerState

from online_rank import PerceptronRanker, StreamScaler, read
from online_rank.query import Block, SparseRows
from online_rank.serving.asgi import Limits, Refused
from online_rank.serving.http import is_local
from online_rank.serving.protocol import RankingService
from online_rank.serving.server import server
from online_rank.storage.archive import read_archive, write_archive
from online_rank.storage.files import ModelFileError, from_bytes, to_bytes
from online_rank.stream.trec import read_judgements, read_run
from tests.fuzz.letor_blocks import in_blocks, line_by_line, made_of

CORPUS = Path(__file__).parent / "corpus"
_X, _Y = [{"a": 1.0, "b": 2.0}, {"a": 2.0}, {"b": 0.5}], [2, 0, 1]


@functools.cache
def _model() -> bytes:
    model = StreamScaler() | PerceptronRanker()
    model.learn_one(_X, _Y)
    return to_bytes(model)


def model(data: bytes) -> None:
    """A model file: the whole with its digest made good, its header, or its first array, by the first byte."""
    kind, data = data[:1], data[1:]
    if kind == b"f":
        data = data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()
    elif kind in (b"h", b"a"):
        name = "header.json" if kind == b"h" else "0.npy"
        data = write_archive((each, data if each == name else bytes(content)) for each, content in read_archive(_model()))
    try:
        found = from_bytes(data)
    except (ModelFileError, MemoryError):
        return
    to_bytes(found)


def _queries(data: bytes, **given: Any) -> None:
    try:
        for x, y in read(io.BytesIO(data), missing="keep", max_query_bytes=1 << 20, **given):
            X = x.X if isinstance(x, Block) else x
            assert X.shape[0] == len(y)
            assert not np.isinf(X.values if isinstance(X, SparseRows) else X).any()
            assert (y >= 0).all()
    except ValueError as error:
        if not str(error).startswith("BytesIO"):
            raise


def letor_blocks(data: bytes) -> None:
    """Blocks, lines and numbers of features of any sizes: the same as line by line, dense and sparse."""
    sizes, text = made_of(data[:400])
    expected = line_by_line(text)
    assert in_blocks(text, sizes) == expected
    assert in_blocks(text, sizes, wide=8) == expected


# Text with a named column is a table.
csv = functools.partial(_queries, query="query")


def _trec(reader: Callable[[Any], Any], data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            found = reader(file.name)
        except ValueError as error:
            if file.name not in str(error):
                raise
            return
        assert all(np.isfinite(value) for documents in found.values() for value in documents.values())


qrels = functools.partial(_trec, read_judgements)
run = functools.partial(_trec, read_run)


@functools.cache
def _service() -> RankingService:
    service = RankingService(StreamScaler() | PerceptronRanker(), wait_bytes=8000)
    service.handle(json.dumps({"id": "w", "docs": dict(enumerate(_X))}).encode())
    return service


def request(data: bytes) -> None:
    """A request of a service: its answer is JSON, and a refused one changes nothing."""
    service = _service()
    reply = service.handle(data)
    json.dumps(reply.answer, allow_nan=False)
    assert not ("error" in reply.answer and reply.changed)


class _Transport(asyncio.Transport):
    """Where a connection of the server writes; keeps whether it closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.closed = False
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class _App:
    """Answers each request by whether it calls this machine."""

    limits = Limits()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        try:
            status = 200 if is_local(scope["headers"]) else 403
        except Refused:
            status = 400
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@functools.cache
def _running() -> tuple[asyncio.AbstractEventLoop, uvicorn.Config]:
    config = server(_App()).config
    config.load()
    return asyncio.new_event_loop(), config


def http(data: bytes) -> None:
    """What a client sends before and after a head: each request is answered, or the connection is closed."""
    loop, config = _running()

    async def connection() -> None:
        protocol: Any = config.http_protocol_class(config=config, server_state=ServerState(), app_state={})
        transport = _Transport()
        protocol.connection_made(transport)
        for begin in range(0, len(data), 50):
            if transport.closed:
                break
            protocol.data_received(data[begin : begin + 50])
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        protocol.connection_lost(None)
        assert not transport.written or transport.written.startswith(b"HTTP/1.1 ")
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)

    loop.run_until_complete(connection())


#: Each target by the name of its corpus.
TARGETS: dict[str, Callable[[bytes], None]] = {
    "model": model, "letor": _queries, "letor_blocks": letor_blocks, "csv": csv, "qrels": qrels, "run": run, "request": request,
    "http": http,
}  # fmt: skip


def feed(name: str, data: bytes) -> None:
    """Give bytes to a target; warnings are as they come to readers' users, and none is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TARGETS[name](data)
