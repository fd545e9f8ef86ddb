"""`train --begin-with`: a model of LightGBM that ranks today."""

import json

import numpy as np
import pytest

from online_rank import FixedTrees, load
from tests.models import STUMP

TABLE = ("log.csv", "--query", "query", "--grade", "grade")


@pytest.fixture
def run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table, letor = ["query,clicks,age,grade"], []
    for q in range(40):
        for clicks, age in zip(rng.integers(0, 4, 6).tolist(), rng.normal(size=6).tolist(), strict=True):
            grade = int(clicks > 1) + int(age > 0.5)
            table.append(f"q{q},{clicks},{age:.3f},{grade}")
            letor.append(f"{grade} qid:{q} 1:{clicks}")
    (tmp_path / "log.csv").write_text("\n".join(table) + "\n")
    (tmp_path / "log.txt").write_text("\n".join(letor) + "\n")
    (tmp_path / "today.txt").write_text(STUMP)
    (tmp_path / "numbers.txt").write_text(STUMP.replace("=clicks", "=Column_0"))
    other = STUMP.replace("max_feature_idx=0", "max_feature_idx=1").replace("split_feature=0", "split_feature=1")
    (tmp_path / "other.txt").write_text(other.replace("=clicks", "=clicks price"))
    return run


@pytest.mark.first(1)
@pytest.mark.parametrize(("files", "today"), [(TABLE, "today.txt"), (("log.txt",), "numbers.txt")], ids=["table", "letor"])
def test_a_run_begins_as_the_model_of_today(run, files, today):
    code, out, err = run("train", *files, "--begin-with", today, "--save", "m", "--certify", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["certificate"]["holds"]
    model = load("m")
    assert isinstance(model.learners[1], FixedTrees)
    assert model.prior == (0.0, 0.5)
    code, out, err = run("train", *files, "--begin-with", today, "--checkpoint", "run", "--json")
    assert code == 0, err
    code, again, err = run("train", "--checkpoint", "run", "--json")
    assert code == 0, err
    assert json.loads(again)["passes"][0]["loss"] == json.loads(out)["passes"][0]["loss"] == report["passes"][0]["loss"]


def test_features_that_a_table_lacks_are_reported(run):
    code, out, err = run("train", *TABLE, "--begin-with", "other.txt")
    assert code == 0, err
    # A blend counts no updates.
    assert "cumulative loss" in out
    assert "updated on" not in out
    assert "--begin-with other.txt: log.csv lacks features of its splits, which count as missing: price" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            (*TABLE, "--begin-with", "numbers.txt"),
            "numbers.txt: its features have no names, and features of log.csv do",
        ),
        (
            ("log.txt", "--begin-with", "today.txt"),
            "today.txt: its features have names, clicks ...; features of LETOR text",
        ),
        ((*TABLE, "--begin-with", "log.csv"), "log.csv: line 1: the text of a LightGBM model begins with tree"),
        ((*TABLE, "--begin-with", "none.txt"), "none.txt"),
        ((*TABLE, "--begin-with", "today.txt", "--ranker", "perceptron"), "--begin-with is for --ranker additive"),
        ((*TABLE, "--begin-with", "today.txt", "--sign", "age=-"), "the trees of --begin-with keep no sign"),
        ((*TABLE, "--begin-with", "today.txt", "--save", "today.txt"), "today.txt"),
    ],
)
def test_what_cannot_begin_so_is_refused(run, arguments, told):
    code, _, err = run("train", *arguments)
    assert code == 2
    assert told in " ".join(err.split())
