"""Rounds of learning and mixing, in this process."""

import gzip
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from online_rank import AdditiveRanker, CheckpointError, DirectRanker, LossTracker, PerceptronRanker, StreamScaler
from online_rank.distributed import from_bytes, learn_files, learn_shard, mix, to_bytes
from online_rank.distributed.rounds import learn_rounds
from online_rank.stream import ReadError, ReadWarning
from tests.helpers import linear_queries

QUERIES = linear_queries(60)
ROUNDS = [[QUERIES[20 * r + 5 * k : 20 * r + 5 * k + 5] for k in range(4)] for r in range(3)]


def model():
    return StreamScaler() | PerceptronRanker()


def test_rounds_are_forks_that_learn_and_are_mixed():
    taught, expected = model(), model()
    training = learn_rounds(taught, ROUNDS)
    for parts in ROUNDS:
        content = to_bytes(expected)
        expected = mix([from_bytes(learn_shard(content, part))["model"] for part in parts], expected)
    assert to_bytes(taught) == to_bytes(expected)
    assert training[:2] == (60, sum(len(y) for _, y in QUERIES))
    assert (training.rounds, training.shards, training.measure) == (3, 4, "ndcg@10")
    assert 0.0 < training.value < 1.0
    assert 0 < training.counted < 60
    assert training.bytes_sent > 24 * 1000
    silent = model()
    assert learn_rounds(silent, ROUNDS, measure=None)[2:5] == pytest.approx(training[2:5])
    assert to_bytes(silent) == to_bytes(taught)


def test_parts_of_a_round_have_numbers_so_that_their_trees_differ():
    taught, content = AdditiveRanker(), to_bytes(AdditiveRanker())
    parts = [QUERIES[:30], QUERIES[30:]]
    learn_rounds(taught, [parts])

    def mixed(numbers):
        learned = [learn_shard(content, part, number=number) for part, number in zip(parts, numbers, strict=True)]
        return to_bytes(mix([from_bytes(one)["model"] for one in learned], AdditiveRanker()))

    assert to_bytes(taught) == mixed([0, 1])
    assert to_bytes(taught) != mixed([0, 0])


class Killed(Exception):
    pass


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_killed_run_continues_and_ends_with_the_same_bits(tmp_path, after):
    whole = model()
    expected = learn_rounds(whole, ROUNDS)
    calls = []

    def dying(*arguments):
        calls.append(1)
        if len(calls) > after:
            raise Killed
        return map(*arguments)

    with pytest.raises(Killed):
        learn_rounds(model(), ROUNDS, dying, checkpoint=tmp_path / "c")
    resumed, rest = model(), []

    def counting(*arguments):
        rest.append(1)
        return map(*arguments)

    training = learn_rounds(resumed, ROUNDS, counting, checkpoint=tmp_path / "c")
    assert len(rest) == 3 - after
    assert to_bytes(resumed) == to_bytes(whole)
    assert training._replace(elapsed=0.0) == expected._replace(elapsed=0.0)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    learn_rounds(model(), ROUNDS[:1], checkpoint=tmp_path / "c")
    with pytest.raises(CheckpointError, match="its measure differ"):
        learn_rounds(model(), ROUNDS[:1], checkpoint=tmp_path / "c", measure="ap")
    with pytest.raises(CheckpointError, match="its parts differ"):
        learn_rounds(model(), ROUNDS, checkpoint=tmp_path / "c")
    with pytest.raises(CheckpointError, match="its model has other parameters"):
        learn_rounds(PerceptronRanker(), ROUNDS[:1], checkpoint=tmp_path / "c")


def test_nothing_is_learned_by_a_model_without_a_rule_or_from_a_bad_part():
    with pytest.raises(TypeError, match="DirectRanker has no rule"):
        learn_rounds(DirectRanker(hidden=(3,)), ROUNDS)
    taught = model()
    before = to_bytes(taught)
    with pytest.raises(ValueError, match="nan"):
        learn_rounds(taught, [[QUERIES[:2], [(np.array([[np.nan], [1.0]]), np.array([0, 1]))]]])
    assert to_bytes(taught) == before
    assert learn_rounds(taught, []).queries == 0


def test_a_tracker_certifies_what_all_machines_learned():
    tracker = LossTracker(PerceptronRanker(), {"u": np.ones(4)})
    learn_rounds(tracker, ROUNDS)
    certificate = tracker.certificate()
    assert certificate.totals["n_rounds"] == 60
    assert certificate.holds


def test_rounds_that_began_with_an_earlier_version_continue_as_they_began(tmp_path):
    def one_round(learn, numbered):
        if numbered[0][1] is not ROUNDS[0][0]:
            raise Killed
        return map(learn, numbered)

    whole, began, now = AdditiveRanker(trees=0), AdditiveRanker(trees=0), AdditiveRanker()
    learn_rounds(whole, ROUNDS[:2])
    with pytest.raises(Killed):
        learn_rounds(began, ROUNDS[:2], one_round, checkpoint=tmp_path)
    with pytest.warns(UserWarning, match=f"^{tmp_path}: AdditiveRanker keeps trees=0, with which it began"):
        learn_rounds(now, ROUNDS[:2], checkpoint=tmp_path)
    assert to_bytes(now) == to_bytes(whole)
    with pytest.raises(CheckpointError, match="its model has other parameters"):
        learn_rounds(AdditiveRanker(trees=3), ROUNDS[:2], checkpoint=tmp_path)


def write(path, queries, first):
    lines = [
        f"{grade} qid:{qid} " + " ".join(f"{j}:{value!r}" for j, value in enumerate(x, start=1))
        for qid, (X, y) in enumerate(queries, start=first)
        for grade, x in zip(y.tolist(), X.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    path.with_suffix(".txt.gz").write_bytes(gzip.compress(path.read_bytes()))


def test_files_that_make_fewer_parts_than_asked_are_reported_once(tmp_path):
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    queries = linear_queries(30)
    X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
    qid = np.repeat(np.arange(30), [len(grades) for _, grades in queries])
    rows = pa.table({"query": qid, "grade": y, **{f"f{j}": X[:, j] for j in range(X.shape[1])}})
    whole, cut = tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    pq.write_table(rows, whole)
    pq.write_table(rows, cut, row_group_size=len(rows) // 8)
    columns = {"query": "query", "grade": "grade"}
    told = r"the files make 1 of 2 x 3 parts: 1 round\(s\) of at most 1 shard\(s\)\. Parquet is cut between row groups only"
    with pytest.warns(ReadWarning, match=told) as warned:
        training = learn_files(model(), [whole], shards=2, rounds=3, passes=2, **columns)
    assert (len(warned), training.rounds, training.shards) == (1, 2, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert learn_files(model(), [cut], shards=2, rounds=3, **columns).rounds == 3


@pytest.mark.slow
def test_processes_and_compression_change_no_bit(tmp_path):
    paths = [tmp_path / f"{k}.txt" for k in range(4)]
    for k, path in enumerate(paths):
        write(path, linear_queries(25, seed=k), 100 * k)
    here, apart, other = model(), model(), model()
    training = learn_files(here, paths, shards=2, rounds=2)
    assert (training.queries, training.rounds, training.shards) == (100, 2, 2)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        learn_files(apart, [path.with_suffix(".txt.gz") for path in paths], run=pool.map, shards=2, rounds=2)
        assert to_bytes(apart) == to_bytes(here)
        bad = tmp_path / "bad.txt"
        bad.write_text("1 qid:1 1:1\n0 qid:1 1:x\n")
        with pytest.raises(ReadError, match=r"bad\.txt, line 2, column 11: the value 'x' of feature 1"):
            learn_files(apart, [paths[0], bad], run=pool.map, shards=2)
    assert to_bytes(apart) == to_bytes(here)
    learn_files(other, paths, shards=4)
    assert to_bytes(other) != to_bytes(here)
    with pytest.raises(ValueError, match="shards is 0"):
        learn_files(other, paths, shards=0)
