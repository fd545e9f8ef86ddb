"""An application that a server runs in several workers refuses to start: each would learn another model."""

import asyncio
import os
import socket
import subprocess
import sys

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import Models, RankingApp, RankingService
from online_rank.serving.server import listening_sockets
from online_rank.serving.workers import OnlyWorker
from online_rank.storage.folder import FolderInUse

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="claims are names of sockets, which other systems lack")

APPLICATION = """
import os
from contextlib import asynccontextmanager
from starlette.applications import Starlette
from starlette.routing import Mount
from online_rank import PerceptronRanker
from online_rank.serving import Models, RankingApp, RankingService

models = Models(lambda: RankingService(PerceptronRanker()), directory=os.environ.get("STATE"))
ranking = RankingApp(models, local_only=False)

@asynccontextmanager
async def lifespan(app):
    async with ranking.running():
        yield

app = Starlette(routes=[Mount("/ranking", ranking)], lifespan=lifespan)
"""


def in_fork(act):
    """What an action answers in a forked child: a text, or its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, str(act()).encode())
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def test_one_process_answers_on_a_socket():
    with listening_sockets("127.0.0.1", 0)[0]:
        OnlyWorker().claim()
        OnlyWorker().claim()  # Another application in this process.
        refused = in_fork(lambda: OnlyWorker().claim())
        assert refused.startswith("RuntimeError: another process serves the same port")
        assert "uvicorn --workers 1" in refused


def test_a_socket_that_nobody_claimed_is_free():
    with listening_sockets("127.0.0.1", 0)[0]:
        assert in_fork(lambda: OnlyWorker().claim()) == "None"
        OnlyWorker().claim()
    # Connections are no places where others are answered.
    a, b = socket.socketpair()
    with a, b:
        OnlyWorker().claim()
        assert in_fork(lambda: OnlyWorker().claim()) == "None"


def test_an_application_that_was_forked_is_refused():
    app = RankingApp(Models(lambda: RankingService(PerceptronRanker())))

    async def run():
        async with app.running():
            return "runs"

    refused = in_fork(lambda: asyncio.run(run()))
    assert refused.startswith("RuntimeError: the application was made before its server forked this process")
    assert "--preload" in refused
    assert asyncio.run(run()) == "runs"


@pytest.mark.parametrize("by_key", [False, True])
def test_a_folder_that_another_worker_has_comes_with_the_remedy(by_key, tmp_path):
    models = Models(lambda: RankingService(PerceptronRanker()), directory=tmp_path, by_key=by_key)
    with pytest.raises(FolderInUse, match=r"is in use by another process .*uvicorn --workers 1"):
        Models(lambda: RankingService(PerceptronRanker()), directory=tmp_path, by_key=by_key)
    asyncio.run(models.close())


@pytest.mark.slow
@pytest.mark.parametrize("state", [None, "state"])
def test_two_workers_of_uvicorn_say_what_to_do(state, tmp_path):
    """Each of them silently learned another model."""
    (tmp_path / "shop.py").write_text(APPLICATION)
    environment = {**os.environ, **({} if state is None else {"STATE": str(tmp_path / state)})}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = (sys.executable, "-m", "uvicorn", "--app-dir", str(tmp_path), "shop:app", "--port", port, "--workers", "2")
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            found = next((line for line in server.stderr if "uvicorn --workers 1" in line), "")
        finally:
            server.terminate()
            server.communicate()
    assert "each worker would learn a separate model" in found
