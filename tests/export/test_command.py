"""`online-rank export`."""

import io
import json

import numpy as np
import pytest

import online_rank
from online_rank import PerceptronRanker, QueryNormalizer, StreamScaler
from online_rank.cli import main


def run(capfdbinary, *arguments):
    """Exit code, standard output and error of the command."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    out, err = capfdbinary.readouterr()
    return left.value.code, out, err.decode()


@pytest.fixture
def saved(tmp_path):
    model = StreamScaler() | PerceptronRanker()
    model.learn_one({"a": {"clicks": 3, "age": 2}, "b": {"clicks": 1, "age": 5}}, {"a": 0, "b": 2})
    online_rank.save(model, tmp_path / "model.npz")
    return tmp_path / "model.npz"


def test_text_goes_to_standard_output_and_to_a_file(saved, tmp_path, capfdbinary):
    code, out, _ = run(capfdbinary, "export", saved, "--to", "solr", "--name", "shop")
    made = json.loads(out)
    assert (code, made["name"], list(made["params"]["weights"])) == (0, "shop", ["clicks", "age"])
    code, nothing, _ = run(capfdbinary, "export", saved, "--to", "solr", "--name", "shop", "--out", tmp_path / "solr.json")
    assert (code, nothing, (tmp_path / "solr.json").read_bytes()) == (0, b"", out)


def test_features_may_be_called_otherwise(saved, capfdbinary):
    code, out, _ = run(capfdbinary, "export", saved, "--to", "vespa", "--map-feature", "clicks=bm25(title)")
    assert code == 0
    assert b"* bm25(title)" in out
    assert b"* if(isNan(attribute(age)) == 1, 0, attribute(age))" in out


def test_onnx_is_written_as_it_is(saved, capfdbinary):
    import onnx

    code, out, _ = run(capfdbinary, "export", saved, "--to", "onnx")
    assert code == 0
    onnx.checker.check_model(onnx.load_from_string(out))


@pytest.fixture
def queries(tmp_path):
    """A table of graded queries, with a price and a brand."""
    rng, rows = np.random.default_rng(0), ["query,price,brand,grade"]
    for q in range(40):
        for _ in range(8):
            price, brand = rng.exponential(), rng.choice(["acme", "other"])
            rows.append(f"{q},{price if rng.random() < 0.9 else ''},{brand},{int(price < 0.7) + int(brand == 'acme')}")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "log.csv"


def test_a_model_is_trained_for_a_target_and_checked(queries, tmp_path, capfdbinary):
    out = tmp_path / "model.npz"
    code, printed, _ = run(capfdbinary, "train", queries, "--grade", "grade", "--for", "solr", "--save", out, "--json")
    report = json.loads(printed)
    assert code == 0
    assert report["default"].keys() == {"progressive"}
    assert not online_rank.load(out).relative
    code, _, err = run(
        capfdbinary, "export", out, "--to", "solr", "--out", tmp_path / "m.json", "--check", queries, "--grade", "grade"
    )
    assert code == 0
    assert "of 40 queries, " in err
    assert "% with another first document; NDCG@10 0." in err
    lines = [line.split(",") for line in queries.read_text().splitlines()]
    (tmp_path / "other.csv").write_text("".join(f"{query},{price},{grade}\n" for query, price, _, grade in lines))
    options = ("--to", "solr", "--out", tmp_path / "m.json", "--check", tmp_path / "other.csv", "--grade", "grade")
    code, _, err = run(capfdbinary, "export", out, *options)
    assert (code, "are not in the file" in err) == (0, True)


def test_the_cost_of_a_target_is_printed_if_it_is_known(queries, capfdbinary):
    code, printed, _ = run(capfdbinary, "train", queries, "--grade", "grade", "--for", "vespa", "--test", queries)
    assert code == 0
    assert printed.decode().count("by the default model") == 2
    code, printed, _ = run(capfdbinary, "train", queries, "--grade", "grade", "--for", "onnx")
    assert code == 0
    assert b"the default model" not in printed
    code, _, err = run(capfdbinary, "train", queries, "--grade", "grade", "--for", "langchain")
    assert code == 2
    assert "--for langchain: it is one of c, duckdb, " in err


def test_the_default_is_left_out_with_a_line(capfdbinary, monkeypatch):
    letor = "".join(f"{i % 2} qid:{q} 1:{i + 0.5 * q}\n" for q in range(5) for i in range(4))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(letor.encode())))
    code, printed, err = run(capfdbinary, "train", "-", "--for", "vespa")
    assert (code, b"the default model" in printed) == (0, False)
    assert "--for vespa: the default model is left out, since standard input can be read once" in err


def test_a_dry_run_shows_files_and_writes_nothing(queries, tmp_path, capfdbinary):
    online_rank.save(PerceptronRanker.from_weights({"price": 1.0}), tmp_path / "model.npz")
    command = ("export", tmp_path / "model.npz", "--to", "json", "--out", tmp_path / "out", "--dry-run")
    code, printed, _ = run(capfdbinary, *command, "--check", queries, "--grade", "grade")
    assert (code, (tmp_path / "out").exists()) == (0, False)
    assert "40 lists" in printed.decode()
    (tmp_path / "text.run").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\n")
    code, printed, _ = run(capfdbinary, *command, "--run", tmp_path / "text.run")
    assert code == 0
    assert "1 queries are in all files" in printed.decode()
    code, _, err = run(capfdbinary, *command)
    assert (code, err) == (2, "online-rank: --dry-run shows what is in files: give --check FILE, or --run for each retriever\n")


def test_what_cannot_be_exported_says_why_in_one_line(saved, tmp_path, capfdbinary):
    model = QueryNormalizer() | PerceptronRanker()
    model.learn_one([[1.0], [2.0]], [0, 1])
    online_rank.save(model, tmp_path / "other.npz")
    for arguments, reason in (
        (
            (tmp_path / "other.npz", "--to", "solr"),
            "Solr cannot compute this model: QueryNormalizer scales",
        ),
        ((saved, "--to", "pmml"), "to is 'pmml'; it must be one of"),
        ((saved, "--to", "c", "--name", "a b"), "it must be a C identifier"),
        ((saved, "--to", "json", "--map-feature", "one=two"), "the model has no feature 'one'"),
        ((tmp_path / "missing.npz", "--to", "json"), "No such file"),
    ):
        code, out, err = run(capfdbinary, "export", *arguments)
        assert (code, out) == (2, b"")
        assert reason in err
        assert err.count("\n") == 1
