import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from online_rank import PerceptronRanker, StreamScaler, read
from online_rank.evaluate import progressive
from online_rank.metrics import NDCG
from online_rank.storage.checkpoint import CheckpointDirectory
from online_rank.storage.database import Query
from online_rank.storage.files import ModelFileError, to_bytes
from online_rank.storage.folder import CheckpointError
from online_rank.storage.generations import taken
from online_rank.stream import write_letor
from tests.helpers import run_command


def kept(folder):
    """The bytes of the state in a folder."""
    with CheckpointDirectory(folder) as directory:
        return to_bytes(directory.read())


def queries(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(5, 3)), rng.integers(0, 3, 5)) for _ in range(n)]


class Stop(Exception):
    pass


def until(n):
    def watch(trace):
        if trace.n_queries == n:
            raise Stop

    return watch


def figures(trace):
    return {**trace.to_dict(), "elapsed": None}, {name: column.tolist() for name, column in trace.columns.items()}


@pytest.mark.parametrize("stops", [[1], [9], [10], [49], [50], [12, 31, 31, 47]])
def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path, stops):
    expected, ndcg = StreamScaler() | PerceptronRanker(half_life=9.0), NDCG()
    whole = progressive(queries(), expected, ndcg, every=10)
    for stop in stops:
        with pytest.raises(Stop):
            progressive(
                queries(),
                StreamScaler() | PerceptronRanker(half_life=9.0),
                NDCG(),
                every=10,
                checkpoint=tmp_path,
                watch=until(stop),
            )
    model, metric = StreamScaler() | PerceptronRanker(half_life=9.0), NDCG()
    scaler = model["StreamScaler"]
    trace = progressive(queries(), model, metric, every=10, checkpoint=tmp_path)
    assert to_bytes([model, metric]) == to_bytes([expected, ndcg])
    assert figures(trace) == figures(whole)
    assert model["StreamScaler"] is scaler  # names that the caller holds still mean the model
    again = progressive(queries(), model, metric, every=10, checkpoint=tmp_path)
    assert figures(again) == figures(whole)


def test_a_run_on_a_file_continues_where_it_was(tmp_path):
    path = tmp_path / "q.txt"
    X, y = np.concatenate([X for X, _ in queries()]), np.concatenate([y for _, y in queries()])
    write_letor(path, X, y, np.repeat(np.arange(50), 5))
    with pytest.raises(Stop):
        progressive(read(path), PerceptronRanker(), every=10, checkpoint=tmp_path / "run", watch=until(25))
    model, expected = PerceptronRanker(), PerceptronRanker()
    trace = progressive(read(path), model, every=10, checkpoint=tmp_path / "run")
    whole = progressive(read(path), expected, every=10)
    assert figures(trace) == figures(whole)
    assert model.weights.tobytes() == expected.weights.tobytes()


@pytest.mark.parametrize(
    ("model", "metrics", "named"),
    [
        (PerceptronRanker("ap"), "ndcg", "model"),
        (StreamScaler() | PerceptronRanker(), "ndcg", "model"),
        (PerceptronRanker(), "map", "metrics"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path, model, metrics, named):
    progressive(queries(), PerceptronRanker(), "ndcg", checkpoint=tmp_path)
    before = kept(tmp_path)
    with pytest.raises(CheckpointError, match=f"its {named} has other parameters"):
        progressive(queries(), model, metrics, checkpoint=tmp_path)
    assert kept(tmp_path) == before


def test_a_damaged_checkpoint_is_an_error_that_names_the_file(tmp_path):
    progressive(queries(), PerceptronRanker(), checkpoint=tmp_path)
    with sqlite3.connect(tmp_path / "state.db") as editor:
        editor.execute("UPDATE piece SET content = CAST(content || ' ' AS BLOB)")
    with pytest.raises(ModelFileError, match=r"state\.db: a piece of it is missing or damaged"):
        progressive(queries(), PerceptronRanker(), checkpoint=tmp_path)
    (tmp_path / "state.db").write_bytes(b"nothing that SQLite wrote" * 100)
    with pytest.raises(CheckpointError, match=r"state\.db is damaged"):
        progressive(queries(), PerceptronRanker(), checkpoint=tmp_path)


def test_pieces_of_a_killed_write_go_away(tmp_path):
    with CheckpointDirectory(tmp_path) as directory:
        writing = directory.generations.writing(taken({"values": np.arange(100_000)}))
        next(writing)
    with CheckpointDirectory(tmp_path) as directory:
        assert directory.read() is None
        directory.write(1)
        assert directory.database.first(Query("SELECT count(*) FROM piece", (int,))) == (1,)


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path):
    with (
        CheckpointDirectory(tmp_path),
        pytest.raises(CheckpointError, match=rf"in use by another process \(id {os.getpid()}\)"),
    ):
        CheckpointDirectory(tmp_path)
    CheckpointDirectory(tmp_path).close()


@pytest.mark.slow
def test_the_lock_dies_with_a_killed_owner(tmp_path):
    code = (
        "import sys, time; from online_rank.storage.checkpoint import CheckpointDirectory\n"
        f"d = CheckpointDirectory({str(tmp_path)!r}); print('locked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=os.getcwd()) as process:
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(CheckpointError, match=f"id {process.pid}"):
            CheckpointDirectory(tmp_path)
        process.send_signal(signal.SIGKILL)
    CheckpointDirectory(tmp_path).close()


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(tmp_path):
    model = PerceptronRanker()
    progressive(queries(), model, checkpoint=tmp_path)
    before = kept(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with CheckpointDirectory(tmp_path) as directory:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, limits[1]))
        try:
            with pytest.raises(OSError, match=r"state\.db"):
                directory.write({"values": np.random.default_rng(0).normal(size=100_000)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert kept(tmp_path) == before


def test_a_directory_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        progressive(queries(), PerceptronRanker(), checkpoint=tmp_path / "file" / "run")
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError):
            progressive(queries(), PerceptronRanker(), checkpoint=tmp_path)


@pytest.fixture
def train(tmp_path, capsys):
    X, y = np.concatenate([X for X, _ in queries()]), np.concatenate([y for _, y in queries()])
    write_letor(tmp_path / "q.txt", X, y, np.repeat(np.arange(50), 5))

    def train(*options):
        return run_command(capsys, "train", tmp_path / "q.txt", "--json", "--checkpoint", tmp_path / "run", *options)

    return train


def test_train_continues_only_the_same_run(train, tmp_path):
    code, first, _ = train("--passes", "2")
    assert code == 0
    for options, message in (
        (("--passes", "3"), "other passes"),
        (("--passes", "2", "--measure", "ap"), "other measure"),
        (("--passes", "2", "--shuffle", "1"), "other shuffle"),
    ):
        code, out, err = train(*options)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1
    code, second, _ = train("--passes", "2")
    assert code == 0
    assert json.loads(first) == json.loads(second)
    text = (tmp_path / "q.txt").read_text()
    for changed in (text + "1 qid:99 1:1\n", text.replace("0", "1", 1)):  # of another size, and of the same
        (tmp_path / "q.txt").write_text(changed)
        assert "other contents" in train("--passes", "2")[2]


def test_two_trainings_in_one_directory(train, tmp_path):
    with CheckpointDirectory(tmp_path / "run"):
        code, out, err = train()
    assert (code, out) == (2, "")
    assert "in use by another process" in err


def test_a_checkpoint_without_a_run_has_nothing_to_continue(capsys, tmp_path):
    code, _, err = run_command(capsys, "train", "--checkpoint", tmp_path / "run")
    assert code == 2
    assert "has no run to continue: name the files to learn from" in err
