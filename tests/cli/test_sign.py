"""`train --sign`: weights with known signs, from a file to C."""

import ctypes
import json
import subprocess

import numpy as np
import pytest

from online_rank import load
from online_rank.base.signs import signs_of_features


@pytest.fixture
def run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["query,price,fit,grade"]
    for q in range(40):
        for price, fit in zip(rng.lognormal(3, 1, 6), rng.normal(size=6), strict=True):
            # The log prefers what is dear.
            lines.append(f"q{q},{price:.2f},{fit:.3f},{int(price > 30) + int(fit > 0)}")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")

    return run


TABLE = ("log.csv", "--query", "query", "--grade", "grade")


def test_signs_are_kept_saved_certified_and_exported(run, tmp_path):
    code, out, err = run("train", *TABLE, "--sign", "price=-", "--sign", "fit=+1", "--certify", "--save", "m", "--json")
    assert code == 0, err
    assert json.loads(out)["certificate"]["holds"]
    model = load("m")
    assert signs_of_features(model) == [{"price": -1, "fit": 1}]
    dear, cheap = model.predict_one([{"price": 90.0, "fit": 0.1}, {"price": 10.0, "fit": 0.1}])
    assert cheap >= dear
    code, _, err = run("train", *TABLE, "--ranker", "perceptron", "--sign", "price=-1", "--save", "s", "-q")
    assert code == 0, err
    code, out, err = run("export", "s", "--to", "c", "--out", "s.c")
    assert code == 0, err
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", "s.so", "s.c", "-lm"], check=True)
    assert ctypes.CDLL(str(tmp_path / "s.so"))
    weights = dict(zip(load("s")["PerceptronRanker"].feature_names, load("s")["PerceptronRanker"].served_weights, strict=True))
    assert weights["price"] <= 0.0 < weights["fit"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--sign", "prise=-"], "--sign prise: log.csv has no such feature; there are price, fit"),
        (["--sign", "price=2"], "--sign price=2: give the name of a feature and its sign"),
        (["--sign", "price=-", "--sign", "price=+"], "price has both signs"),
        (["--sign", "price=-", "--ranker", "blend"], "'blend' is not one of 'additive', 'perceptron'"),
    ],
)
def test_signs_that_cannot_be_kept_are_refused(run, options, told):
    code, _, err = run("train", *TABLE, *options)
    assert code == 2
    assert told in err
