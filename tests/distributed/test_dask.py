"""Learning on a Dask cluster on the loopback."""

import contextlib
import gzip

import distributed
import pytest

from online_rank import PerceptronRanker, StreamScaler
from online_rank.distributed import to_bytes
from online_rank.distributed.rounds import here, learn_rounds
from online_rank.stream import ReadError
from online_rank.stream.parts import parts as parts_of
from tests.distributed.parts import Deadly
from tests.helpers import linear_queries


def write(path, queries, first):
    lines = [
        f"{grade} qid:{qid} " + " ".join(f"{j}:{value!r}" for j, value in enumerate(x, start=1))
        for qid, (X, y) in enumerate(queries, start=first)
        for grade, x in zip(y.tolist(), X.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / f"{k}.txt" for k in range(4)]
    for k, path in enumerate(paths):
        write(path, linear_queries(25, seed=k), 100 * k)
    for path in paths:
        path.with_suffix(".txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    return paths


@contextlib.contextmanager
def cluster_of(n):
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=n, **options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as client:
        yield client


def model():
    return StreamScaler() | PerceptronRanker()


def digest_here(paths, shards, rounds):
    taught = model()
    parts = parts_of(paths, shards * rounds)
    learn_rounds(taught, [parts[k : k + shards] for k in range(0, len(parts), shards)], here)
    return to_bytes(taught)


@pytest.mark.slow
def test_workers_and_compression_change_no_bit(client, files):
    from online_rank.distributed.dask import train

    expected = digest_here(files, 2, 2)
    assert digest_here(files, 4, 1) != expected
    zipped = [path.with_suffix(".txt.gz") for path in files]
    for paths in (files, zipped):
        taught = model()
        training = train(client, taught, paths, shards=2, rounds=2)
        assert to_bytes(taught) == expected
        assert (training.queries, training.rounds, training.shards) == (100, 2, 2)
    with cluster_of(1) as alone:
        taught = model()
        train(alone, taught, zipped, shards=2, rounds=2)
    assert to_bytes(taught) == expected


@pytest.mark.slow
def test_a_worker_that_is_killed_half_way_loses_nothing(client, files, tmp_path):
    from online_rank.distributed.dask import on_dask

    parts, mark = parts_of(files, 4), tmp_path / "killed"
    taught = model()
    learn_rounds(taught, [parts[:2], [Deadly(parts[2], str(mark)), parts[3]]], on_dask(client))
    assert to_bytes(taught) == digest_here(files, 2, 2)
    assert int(mark.read_text()) > 0


@pytest.mark.slow
def test_what_a_worker_raises_is_raised(files, tmp_path):
    from online_rank.distributed.dask import train

    bad = tmp_path / "bad.txt"
    bad.write_text("1 qid:1 1:1\n0 qid:1 1:x\n")
    taught = model()
    before = to_bytes(taught)
    # One process: the only quick test of a cluster, which takes two seconds for each.
    with cluster_of(1) as client:
        with pytest.raises(ReadError, match=r"bad\.txt, line 2, column 11: the value 'x' of feature 1"):
            train(client, taught, [files[0], bad], shards=2)
        assert to_bytes(taught) == before
        with pytest.raises(ValueError, match="shards is 0"):
            train(client, taught, files, shards=0)
