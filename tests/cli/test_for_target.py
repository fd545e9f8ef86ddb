"""`train --for` says before training what the target cannot distinguish or compute, and afterwards what that costs."""

import json

import numpy as np
import pytest

from online_rank.cli import main


@pytest.fixture
def table(tmp_path):
    rng, rows = np.random.default_rng(0), ["query,price,margin,grade"]
    for q in range(30):
        for i in range(6):
            price = 1.0 + rng.exponential()
            rows.append(f"{q},{price if i else ''},{i - 1 if i > 1 else '' if q % 2 else 0},{int(price < 1.5)}")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "log.csv"


@pytest.mark.parametrize(("target", "title"), [("elasticsearch", "the plugin"), ("solr", "Solr"), ("vespa", None)])
def test_a_feature_that_is_missing_and_0_is_named_before_training(table, capsys, target, title):
    with pytest.raises(SystemExit) as left:
        main(["train", str(table), "--grade", "grade", "--for", target])
    err = capsys.readouterr().err
    assert left.value.code == 0
    line = f"--for {target}: missing in some documents, and 0 or less in others: margin. {title} takes a missing field for 0"
    assert (line in err) == (title is not None)


@pytest.mark.parametrize(("target", "reason"), [("solr", "its models add up trees, or weights"), ("vespa", None)])
def test_vectors_that_a_target_cannot_compute_are_named_before_training(tmp_path, capsys, target, reason):
    rng, rows = np.random.default_rng(0), []
    for q in range(20):
        for i in range(5):
            rows.append({"query": q, "price": float(rng.random()), "embedding": rng.random(3).tolist(), "grade": i % 2})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SystemExit) as left:
        main(["train", str(tmp_path / "log.jsonl"), "--grade", "grade", "--for", target])
    err = capsys.readouterr().err
    assert left.value.code == 0, err
    assert (f"--for {target}: embedding is a vector, and {reason}" in err) == (reason is not None)


def test_the_price_of_words_is_printed_for_a_target_that_takes_all_but_them(tmp_path, capsys):
    rng, rows = np.random.default_rng(0), ["query,price,title,grade"]
    words = np.array(["red", "blue", "green", "old", "new", "shoe", "boot", "coat", "hat", "bag", "silk", "wool"])
    for q in range(120):
        for _ in range(6):
            title = " ".join(rng.choice(words, 4, replace=False))
            rows.append(f"{q},{rng.random():.3f},{title} {rng.integers(10**6)},{int('red' in title)}")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(SystemExit):
        main(["train", str(tmp_path / "log.csv"), "--grade", "grade", "--for", "onnx", "--json"])
    found = json.loads(capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["train", str(tmp_path / "log.csv"), "--grade", "grade", "--json"])
    default = json.loads(capsys.readouterr().out)
    assert found["default"]["progressive"] == default["passes"][0]["metrics"]["ndcg@10"]
    assert found["default"]["progressive"] > found["passes"][0]["metrics"]["ndcg@10"] + 0.05
