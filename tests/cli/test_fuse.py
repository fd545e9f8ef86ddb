"""`online-rank fuse`: runs and judgements in, figures, a run and a model out."""

import json
import math

import numpy as np
import pytest

from online_rank import Runs, load
from online_rank.cli import main
from online_rank.stream.trec import read_run, write_run

#: bm25 has the relevant document third, the vectors first; b stands well in both.
BM25 = {"a": 9.0, "b": 8.0, "r": 1.0}
VECTOR = {"r": 0.9, "b": 0.8, "c": 0.1}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run("bm25.run", {f"q{i}": BM25 for i in range(30)})
    write_run("vector.run", {f"q{i}": VECTOR for i in range(30)} | {"q30": {"z": 1.0}})
    (tmp_path / "qrels").write_text("".join(f"q{i} 0 r 1\nq{i} 0 never 1\n" for i in range(30)))
    return tmp_path


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        main(["fuse", *arguments])
    return left.value.code, *capsys.readouterr()


def ndcg(place):
    """Of one relevant document at a place, where another one was never returned."""
    best = 1.0 + 1.0 / math.log2(3)
    return 1.0 / math.log2(place + 1) / best


def test_figures_are_over_all_that_was_judged(folder, capsys):
    code, out, _ = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels", "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["queries"], report["judged"]) == (31, 30)
    values = report["values"]
    assert values["bm25"] == pytest.approx(ndcg(3))
    assert values["vector"] == pytest.approx(ndcg(1))
    # b: 1/62 + 1/62; r: 1/63 + 1/61, which is more.
    assert values["rrf"] == pytest.approx(ndcg(1))
    # a 1, b 7/8 + 7/8, r 0 + 1: b, then a and r tie, and a is met first.
    assert values["minmax"] == pytest.approx(ndcg(3))
    assert report["differences"]["bm25"]["mean"] == pytest.approx(ndcg(3) - ndcg(1))
    assert set(report["weights"]["shares"]) == {"today's rule", "perceptron", "ridge"}


def test_learning_begins_with_the_rule_and_leaves_it(folder, capsys):
    code, out, _ = run(
        capsys, "bm25.run", "vector.run", "--qrels", "qrels", "--today", "minmax", "--out", "fused", "--save", "m", "--json"
    )
    assert code == 0
    report = json.loads(out)
    assert ndcg(3) < report["values"]["learned"] <= ndcg(1) + 1e-12
    fused = read_run("fused")
    assert next(iter(fused["q0"])) == "b"
    assert next(iter(fused["q29"])) == "r"
    assert list(fused["q30"]) == ["z"]
    model = load("m")
    assert model.rank_one(Runs({"bm25": BM25, "vector": VECTOR}))[0] == "r"


def test_people_see_rules_and_differences(folder, capsys):
    code, out, _ = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels")
    assert code == 0
    for said in (
        "31 queries, 30 judged",
        "reciprocal rank fusion",
        "mean of min-max scores",
        "learned, beginning with rrf",
        "bm25: ",
    ):
        assert said in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bm25.run"], "give at least two runs"),
        (["bm25.run", "bm25.run"], "need names of their own"),
        (["bm25.run", "rrf.run"], "need names of their own"),
        (["bm25.run", "vector.run", "--out", "bm25.run"], "that is an input file"),
        (["bm25.run", "vector.run", "--level", "1"], "--level is 1"),
        (["bm25.run", "other.run"], "judges none"),
    ],
)
def test_refused(folder, capsys, arguments, message):
    write_run("rrf.run", {"q1": VECTOR})
    write_run("other.run", {"q1": VECTOR})
    qrels = "qrels"
    if "other.run" in arguments:
        qrels = "none"
        (folder / "none").write_text("elsewhere 0 r 1\n")
    code, _, err = run(capsys, *arguments, "--qrels", qrels)
    assert code != 0
    assert message in err


@pytest.mark.parametrize(("run_", "message"), [({"a b": {"d": 1.0}}, "query 'a b'"), ({"q": {"": 1.0}}, "document ''")])
def test_runs_that_cannot_be_read_again_are_not_written(tmp_path, run_, message):
    with pytest.raises(ValueError, match=message):
        write_run(tmp_path / "run", run_)
    with pytest.raises(ValueError, match="finite"):
        write_run(tmp_path / "run", {"q": {"d": np.nan}})
    assert not list(tmp_path.iterdir())
