"""Learning on a Dask cluster (extra `dask`)."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from online_rank import arguments
from online_rank.distributed.mixing import learn_shard
from online_rank.distributed.rounds import Execute, Training, learn_rounds
from online_rank.stream import parts

__all__ = ["Training", "local_client", "on_dask", "train"]

_OWN_SETTINGS = {
    # By default Dask makes workers return freed memory at once. Reading text allocates a few megabytes over and over, and
    # getting them back from the system takes a sixth of its time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 27,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
    # Every Dask process monitors itself many times a second, which costs processor time: it profiles (every 10 ms), measures
    # its latency (20 ms), and reads its memory (100 ms) and load (500 ms).
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


@contextlib.contextmanager
def local_client(n_workers: int, **options: Any) -> Iterator[Any]:
    """A client of a cluster of processes on this machine, with settings that reduce overhead.

    Workers keep the memory used for reading text, and monitor themselves less often than by default. So the dashboard has no
    profile, and a worker that runs out of memory is noticed after a second.

    Parameters
    ----------
    n_workers
        Number of processes; each has one thread.
    options
        Further options of `dask.distributed.LocalCluster`.

    Examples
    --------
    >>> from online_rank.distributed.dask import local_client
    >>> with local_client(2) as client:  # doctest: +SKIP
    ...     training = train(client, model, files)
    """
    import dask
    from dask.distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", **options}
    with dask.config.set(_OWN_SETTINGS), LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
        yield client


def train(
    client: Any,
    model: Any,
    files: Sequence[str | os.PathLike[str]],
    *,
    shards: int = 16,
    rounds: int = 1,
    passes: int = 1,
    measure: str | None = "ndcg@10",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Training:
    """Teach a model from files on the machines of a Dask cluster, by iterative parameter mixing.

    The files are divided into `shards` x `rounds` parts of whole queries (`online_rank.stream.parts`). In each round the
    next `shards` of them are learned, each by a copy of the model, wherever there is a worker; then the copies are mixed into
    one (`mix`). If a worker dies, its part is learned again elsewhere.

    The result depends only on the files, `shards`, `rounds` and `passes`: it is the same, bit for bit, for any number of
    workers.

    Parameters
    ----------
    client
        A `dask.distributed.Client`. Its workers see the files under the same paths, and have online_rank.
    model
        A model that can be mixed (`mix`). It learns in place.
    files
        Files, as `online_rank.read` takes them.
    shards
        Number of copies that learn in a round; a multiple of the number of workers keeps all of them busy. There are fewer if
        the files cannot be cut into this many parts.
    rounds
        Number of mixings in a pass. More of them bring the result closer to the result of one machine, and send the model more
        often.
    passes
        Number of passes over the files.
    measure
        The measure of each ranking before its query is learned; None for none.
    checkpoint
        A directory of the calling machine. The model is written there after each round, and the same call resumes from it.
    progress
        Whether to show a progress bar on stderr (extra `cli`); None shows one on a terminal only.
    **options
        Further arguments of `online_rank.read`, such as the columns of tables.

    Returns
    -------
    Training

    Raises
    ------
    TypeError, ValueError
        The model cannot be mixed, an argument is out of its range, or a file is bad. Errors of workers are raised unchanged.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> with Client("tcp://scheduler:8786") as client:  # doctest: +SKIP
    ...     train(client, model, ["day1.txt", "day2.txt.gz"], shards=16)
    """
    for name, value in (("shards", shards), ("rounds", rounds), ("passes", passes)):
        arguments.integer(name, value, 1)
    cut = parts(files, shards * rounds, **options)
    in_rounds = [cut[k : k + shards] for k in range(0, len(cut), shards)] * passes
    return learn_rounds(model, in_rounds, on_dask(client), measure=measure, checkpoint=checkpoint, shown=progress)


def on_dask(client: Any) -> Execute:
    """Runs the machines of `learn_rounds` on a Dask cluster."""

    def run(content: bytes, parts: Sequence[Any], measure: str | None, show: Callable[[int], None]) -> list[bytes]:
        from dask.distributed import as_completed

        # Not scattered: data held by a single worker would be lost with it.
        futures = [client.submit(learn_shard, content, part, measure=measure, pure=False) for part in parts]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                if future.status == "error":
                    future.result()
                show(done)
            return client.gather(futures)
        except BaseException:
            client.cancel(futures)
            raise

    return run
