"""The kinds of features are shown where a model is explained, and on the page of a run."""

import json

import numpy as np
import pandas as pd
import pytest

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


@pytest.mark.parametrize("given", [("--grade", "grade"), ("--clicks", "moved")])
def test_columns_made_of_texts_are_no_columns_of_a_file(given, tmp_path, capsys):
    """`evaluate` warned that the file lacks "words of title", which a model made of its titles."""
    rng = np.random.default_rng(0)
    rows = [
        (q, f"{q}/{d}", d + 1, int(rng.integers(2)), " ".join(f"w{i}" for i in rng.integers(40, size=1 + d)), d % 2)
        for q in range(60)
        for d in range(5)
    ]
    table = pd.DataFrame(rows, columns=["query", "document", "position", "grade", "title", "x"])
    table.assign(click=table.grade).to_csv(tmp_path / "log.csv", index=False)
    named = ("--query", "query", "--document", "document", "--features", "title,x")
    code, _, err = run_command(capsys, "train", tmp_path / "log.csv", *named, *given, "--quiet", "--save", tmp_path / "m")
    assert code == 0, err
    code, _, err = run_command(capsys, "evaluate", tmp_path / "m", tmp_path / "log.csv", *named[:4], "--grade", "grade")
    assert (code, "not in the file" in err) == (0, False), err
