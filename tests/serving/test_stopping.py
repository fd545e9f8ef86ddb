"""A service that is stopped loses nothing: neither what waits to be written nor its last checkpoint."""

import asyncio
import json
import subprocess
import sys
import threading

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService
from online_rank.serving.served import ServedModel
from online_rank.storage.folder import CheckpointError

DOCS = {"a": {"x": 1.5}, "b": {"x": 2}}
RANK, LEARN = json.dumps({"id": 1, "docs": DOCS}).encode(), json.dumps({"id": 1, "grades": {"a": 1, "b": 0}}).encode()

_IN_A_THREAD = """
import asyncio, sys, threading, time
from online_rank import PerceptronRanker
from online_rank.serving import Models, RankingApp, RankingService


async def serve():
    app = RankingApp(Models(lambda: RankingService(PerceptronRanker()), directory=sys.argv[1]))
    async with app.running():
        model = await app.models.get(None)
        assert (await model.answer(sys.argv[2].encode()))[0] == 200
        assert (await model.answer(sys.argv[3].encode()))[0] == 200
        answered.set()
        threading.main_thread().join()
        time.sleep(0.5)  # Python ends the threads that run work for others.


answered = threading.Event()
threading.Thread(target=lambda: asyncio.run(serve())).start()
answered.wait()
"""


@pytest.mark.slow
def test_the_last_checkpoint_is_written_where_the_main_thread_has_ended(tmp_path):
    """It ended with "the checkpoint cannot be written ...: cannot schedule new futures after shutdown"."""
    command = [sys.executable, "-c", _IN_A_THREAD, str(tmp_path / "state"), RANK.decode(), LEARN.decode()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    again = DurableService(RankingService(PerceptronRanker()), tmp_path / "state")
    assert (again.service.stats()["learned"], again.journal_bytes) == (1, 0)
    again.close()


def test_a_second_signal_does_not_lose_what_a_thread_is_writing(tmp_path):
    """All tasks are cancelled then: what was on its way to the disk was acknowledged later, and not written."""
    writing, go_on = threading.Event(), threading.Event()

    async def main():
        served = ServedModel(DurableService(RankingService(PerceptronRanker()), tmp_path / "state"))
        append = served.durable.append

        def slow(outcomes, sync):
            writing.set()
            assert go_on.wait(60)
            append(outcomes, sync)

        served.durable.append = slow
        await served.answer(RANK)
        learning = asyncio.create_task(served.answer(LEARN))
        while not writing.is_set():
            await asyncio.sleep(0.01)
        served.commits._task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert (await learning)[1]["learned"]
        await served.close()

    asyncio.run(main())
    try:
        again = DurableService(RankingService(PerceptronRanker()), tmp_path / "state")
    except CheckpointError as error:
        raise AssertionError(str(error)) from error
    assert (again.service.stats()["learned"], again.journal_bytes) == (1, 0)
    again.close()
