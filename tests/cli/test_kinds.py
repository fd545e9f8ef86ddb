"""The kinds of features are shown where a model is explained, and on the page of a run."""

import json

import numpy as np

from online_rank import AdditiveRanker, save
from online_rank.cli.report import _kinds_of
from tests.helpers import run_command


def taught():
    model, rng = AdditiveRanker(trees=0, kinds={"title": "text", "sku": "ignored"}), np.random.default_rng(0)
    for t in range(6):
        x = [{"title": f"shoe w{j}", "sku": f"{t} {j}", "brand": f"b{j % 3}", "price": float(j)} for j in range(9)]
        model.learn_one(x, rng.integers(0, 3, 9).tolist())
    return model


def test_the_page_of_a_run_has_the_kinds_of_features():
    ((title, text),) = _kinds_of(taught())
    assert title == "Kinds of features"
    for name, kind in (("title", "text"), ("sku", "ignored"), ("brand", "category")):
        assert f"<td>{name}</td>" in text.replace(' class="text"', "")
        assert kind in text
    assert "54 values of ignored features" in text
    assert _kinds_of(AdditiveRanker()) == []


def test_explain_prints_the_kinds(tmp_path, capsys):
    model, file = tmp_path / "model", tmp_path / "queries.jsonl"
    save(taught(), model)
    docs = [{"title": f"shoe w{j}", "sku": f"x {j}", "brand": f"b{j}", "price": float(j)} for j in range(3)]
    file.write_text("".join(json.dumps({"qid": "1", "docid": str(j), **one}) + "\n" for j, one in enumerate(docs)))
    code, told, errors = run_command(capsys, "explain", model, file, "--query", "qid", "--document", "docid", "--id", "1")
    assert code == 0, errors
    assert "kinds of features: brand is a category, title is a text, sku is ignored" in told


def test_train_refuses_kinds_of_columns_that_are_not_there_or_have_numbers(tmp_path, capsys):
    """A misspelt name was silently without effect, and so was a kind of numbers."""
    file = tmp_path / "queries.jsonl"
    rows = [{"qid": q, "grade": i % 3, "title": f"shoe w{i}", "price": i} for q in range(3) for i in range(6)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ("--query", "qid", "--grade", "grade")
    code, _, errors = run_command(capsys, "train", file, *columns, "--kind", "titel=text")
    assert code == 2
    assert "no column 'titel'; there are" in errors
    code, _, errors = run_command(capsys, "train", file, *columns, "--kind", "price=text")
    assert code == 2
    assert "'price' is declared 'text'" in errors
    code, _, errors = run_command(capsys, "train", file, *columns, "--kind", "title=text")
    assert code == 0, errors
