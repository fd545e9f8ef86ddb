"""`online-rank serve`: the service over HTTP."""

import asyncio
import contextlib
import copy
import errno
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from online_rank.cli.logs import say
from online_rank.cli.options import Place
from online_rank.cli.positions import how_it_serves
from online_rank.cli.service import say_where_it_goes_on
from online_rank.serving.protocol import RankingService
from online_rank.storage.postgres import is_postgres
from online_rank.support.lazy import needs

#: The environment variable with the bearer token. Not an option, because all users of a machine can see command lines.
TOKEN = "ONLINE_RANK_TOKEN"
#: In the environment of the readers that `--readers` starts: their port is the learner's.
SHARED = "ONLINE_RANK_SHARED_PORT"
#: Seconds after which the thread that writes gives way to requests; by Python's default it keeps each of them waiting for 5 ms.
_SWITCH = 0.0005
#: Threads for what waits for the disk: writing, reading models, replaying a journal.
_N_THREADS = 6
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def make_app(make: Callable[[], RankingService], place: Place) -> Any:
    """The application; raises ImportError with advice when the extra is missing."""
    with needs("the server", "serve"):
        # Before anything is printed or created.
        from online_rank.serving import http  # noqa: F401
        from online_rank.serving.models import Models
    service = place.service
    models = Models(
        make,
        directory=service.checkpoint,
        by_key=place.key is not None,
        every=service.every,
        max_open=place.max_models,
        max_keys=place.max_keys,
        max_bytes=place.max_bytes,
        replace_model=service.replace_model,
        snapshots=place.snapshots,
        cache=place.cache,
        **place.seconds,
    )
    for model in models.open_models.values():
        say_where_it_goes_on(model.durable)
    example = models.example()
    for line in how_it_serves(example.model, example.challenge, [*((example.plan and example.plan.events) or {})]):
        say(line)
    return _over(models, place)


def _over(models: Any, place: Place) -> Any:
    """The application over the models of a server or of a reader."""
    with needs("the server", "serve"):
        from online_rank.serving.http import RankingApp
    token = tokens(place.tokens)
    local_only = place.host in _LOOPBACK and token is None
    return RankingApp(models, key=place.key, token=token, local_only=local_only, limits=limits(place))


def limits(place: Place) -> Any:
    """What clients may take."""
    from online_rank.serving.asgi import Limits

    return Limits(body=place.max_request)


def serve(make: Callable[[], RankingService], place: Place, started: Callable[[Any], None] | None = None) -> None:
    """Serve until a signal to stop; then finish running requests and write checkpoints.

    `started` is called with the application.
    """
    with needs("the server", "serve"):
        from online_rank.serving.server import EventLoop, listening_sockets, server

    # Before kernels are compiled, which may take a minute, so that a port in use is reported at once.
    sockets = listening_sockets(place.host, place.port, shared=bool(place.readers) or SHARED in os.environ)
    address = _address(place.host, sockets[0].getsockname()[1])
    if SHARED in os.environ:
        threading.Thread(target=_end_with_stdin, name="online_rank learner ended", daemon=True).start()
    app = _app(make, place, address)
    running = server(app, place.max_models if place.key is not None else 1)
    leave, begin = running.handle_exit, running.startup

    over = threading.Event()

    def handle_exit(sig: int, frame: Any) -> None:
        over.set()
        app.stop()
        leave(sig, frame)

    async def startup(sockets: Any = None) -> None:
        asyncio.get_running_loop().set_default_executor(pool)
        await begin(sockets)
        # Modules and models stay: otherwise collections of garbage look at them again and again.
        gc.collect()
        gc.freeze()
        say(f"listening on {address}/")
        if started is not None:
            started(app)

    running.handle_exit, running.startup = handle_exit, startup  # type: ignore[method-assign]
    # uvicorn raises the signal again after a clean shutdown; that is not an error here.
    previous, interval = signal.signal(signal.SIGTERM, lambda *_: None), sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    try:
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(_threads())
            if place.readers:
                own = listening_sockets("127.0.0.1", 0)
                stack.enter_context(readers(over, place, address, _address("127.0.0.1", own[0].getsockname()[1])))
                sockets += own
            runner = stack.enter_context(asyncio.Runner(loop_factory=EventLoop))
            with contextlib.suppress(KeyboardInterrupt):
                runner.run(running.serve(sockets))
    finally:
        signal.signal(signal.SIGTERM, previous)
        sys.setswitchinterval(interval)


@contextlib.contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for an event loop, all of them started, so that a server that listens lacks none. Raises OSError."""
    pool, all_started = ThreadPoolExecutor(_N_THREADS, "online_rank"), threading.Event()
    try:
        for _ in range(_N_THREADS):
            pool.submit(all_started.wait)
        all_started.set()
        yield pool
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        remedy = "give this process more memory (ulimit -v) or more threads (ulimit -u)"
        raise OSError(errno.EAGAIN, f"no further thread can be started: {remedy}") from None
    finally:
        all_started.set()


def _end_with_stdin() -> None:
    """Stop this server when its standard input has ended."""
    while os.read(0, 4096):
        pass
    while True:  # A signal that comes while the server begins is lost.
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1.0)


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _app(make: Callable[[], RankingService], place: Place, address: str) -> Any:
    """The application: of a server, of one that waits until it leads, or of a reader."""
    if tokens(place.tokens) is None and place.host not in _LOOPBACK:
        say(f"{TOKEN} is not set: anyone who can reach {place.host} can teach the model", logging.WARNING)
    if place.reads_from is not None:
        with needs("a reader", "serve,client"):
            from online_rank.serving.readers import ReaderModels

        admins = tokens_by_role(place.tokens)["admin"]
        name = f"{socket.gethostname()} {address} {os.getpid()}"
        token = admins[0] if admins else None
        models = ReaderModels(
            place.reads_from, name=name, key=place.key, token=token, cache=place.cache, max_open=place.max_models
        )
        return _over(models, place)
    _warm(make())
    if is_postgres(place.service.checkpoint):
        with needs("the server", "serve"):
            from online_rank.serving.leading import LeadingApp

        return LeadingApp(lambda: make_app(make, place), limits(place), lambda why: _with_cache(make, place, why))
    return make_app(make, place)


def _with_cache(make: Callable[[], RankingService], place: Place, why: Exception) -> Any:
    """An application that ranks with the model of the cache; None without one."""
    from online_rank.serving.cached import Cache
    from online_rank.serving.models import Models
    from online_rank.serving.starting import StandIn, with_cached_model

    service = None if place.cache is None else with_cached_model(make, Cache(place.cache))
    return None if service is None else _over(Models(make, only=StandIn(service, why)), place)


@contextlib.contextmanager
def readers(over: threading.Event, place: Place, address: str, learner: str) -> Iterator[None]:
    """Readers of a learner on its port, until it is over; one that ends before is started again."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    options = {"reads-from": learner, "host": host.strip("[]"), "port": port, "max-request": place.max_request,
               "max-models": place.max_models if place.key is not None else None, "key": place.key,
               "tokens": place.tokens}  # fmt: skip
    given = [text for name, value in options.items() if value is not None for text in (f"--{name}", str(value))]
    environment = {**os.environ, SHARED: "1"}

    def keep_one() -> None:
        while not over.is_set():
            command = [sys.executable, "-m", "online_rank", "serve", *given]
            # It ends with this pipe, and so when this process is killed: nobody listens at the learner's address then.
            with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as reader:
                while reader.poll() is None and not over.wait(0.1):
                    pass
                if reader.poll() is None:
                    reader.terminate()
                elif not over.wait(1.0):
                    say(f"a reader ended with {reader.returncode}: another one starts", logging.ERROR)

    threads = [threading.Thread(target=keep_one, name="online_rank reader") for _ in range(place.readers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def tokens(file: str | None) -> Any:
    """The tokens of the environment and of a file; None without tokens. Raises ValueError, OSError."""
    from online_rank.serving.tokens import Tokens

    found = tokens_by_role(file)
    if not any(found.values()):
        if file is not None or TOKEN in os.environ:
            raise ValueError(f"{file or TOKEN} has no token")
        return None
    return Tokens(found)


def tokens_by_role(file: str | None) -> dict[str, list[str]]:
    """The tokens of each role, of the environment and of a file. Raises ValueError, OSError."""
    from online_rank.serving.tokens import ROLES, tokens_in

    found = {} if file is None else tokens_in(Path(file).read_text("utf-8"))
    for role in ROLES:
        names = [f"{TOKEN}_{role.upper()}", *([TOKEN] if role == "admin" else [])]
        given = [token for name in names for token in os.environ.get(name, "").split()]
        found[role] = [*found.get(role, []), *given]
    return found


def _warm(service: RankingService) -> None:
    """Let a copy of a service answer once, so that no client waits for the compiler."""
    service = copy.deepcopy(service)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they would be about documents that no user has sent
        service.handle(b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}}')
        service.handle(b'{"id": 1, "grades": {"a": 1, "b": 0}}')
