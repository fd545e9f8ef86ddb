"""What a newcomer does first: any model behind any command, files as they come, counts that say what they count."""

import io
import json
import re
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from online_rank import load, read, save
from online_rank.cli import main
from online_rank.metrics import metric

SHIFT = np.array([[0], [1], [2], [0]])
LINES = [
    f"{grade} qid:{q} " + " ".join(f"{j + 1}:{value:.4f}" for j, value in enumerate(x))
    for q in range(30)
    for grade, x in zip([0, 1, 2, 0], np.random.default_rng(q).normal(size=(4, 3)) + SHIFT, strict=True)
]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "test.txt").write_text("\n".join([*LINES[:40], "0 qid:99 1:1 2:2 5:7"]) + "\n")

    def run(*arguments, stdin="", code=0):
        if stdin:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert leaving.value.code == code, err
        return out, err

    return run


@pytest.mark.slow
def test_a_model_of_files_is_served_and_one_that_was_served_ranks_files(run):
    run("train", "train.txt", "-q", "--save", "m")
    X, _ = next(read("test.txt"))
    docs = {str(i): {str(j + 1): value for j, value in enumerate(x)} for i, x in enumerate(X[:, :3].tolist())}
    served = load("m")
    assert list(served.predict_one(docs).values()) == served.predict_one(X[:, :3])
    served.learn_one(docs, {"0": 0, "1": 1, "2": 2, "3": 0})
    served.learn_one({"a": {"7": 1.0}, "b": {"1": 1.0}}, {"a": 0, "b": 1})
    save(served, "served")
    for model in ("m", "served"):
        assert len(run("rank", model, "test.txt")[0].splitlines()) == 41
        figures = json.loads(run("evaluate", model, "test.txt", "--json")[0])
        assert figures["queries"] == 11
        assert figures["metrics"]["ndcg@10"] > figures["random"]["ndcg@10"] > 0.0


def test_counts_say_what_they_count(run):
    run("train", "train.txt", "-q", "--save", "m")
    out, _ = run("evaluate", "m", "test.txt")
    assert "10 of 11" in out
    assert "random ranking" in out
    skip, zero = (json.loads(run("evaluate", "m", "test.txt", "--json", "--no-relevant", n)[0]) for n in ("skip", "zero"))
    assert (skip["counted"]["map"], zero["counted"]["map"]) == (10, 11)
    assert zero["metrics"]["map"] == pytest.approx(skip["metrics"]["map"] * 10 / 11)
    out, _ = run("train", "test.txt")
    assert "10 of 11" in out
    assert "a random ranking of the same queries" in out
    assert "queries/s, read, ranked, measured and learned" in out


def test_a_file_that_is_not_sorted_is_grouped(run):
    order = [start + i for start in range(0, len(LINES), 8) for i in (0, 4, 1, 5, 2, 6, 3, 7)]
    with open("mixed.txt", "w") as file:
        file.write("\n".join(LINES[i] for i in order) + "\n")
    grouped, err = run("train", "mixed.txt", "--json")
    told = "rows are not sorted by 'qid'; they are sorted here, which reads everything first"
    assert err == f"online-rank: mixed.txt, line 1: {told}\n"
    plain, _ = run("train", "train.txt", "--json")
    assert json.loads(grouped)["passes"][0]["queries"] == 30
    assert json.loads(grouped)["passes"][0]["loss"] == json.loads(plain)["passes"][0]["loss"]


def test_negative_grades(run):
    with open("spam.txt", "w") as file:
        file.write("\n".join(LINES) + "\n-2 qid:29 1:1 2:1 3:1\n")
    out, err = run("train", "spam.txt", "--json", "--save", "m")
    assert json.loads(out)["passes"][0]["documents"] == 121
    assert err == "online-rank: spam.txt, line 121: grades below 0 count as 0\n"
    assert run("evaluate", "m", "spam.txt", "--json")[1] == err


def test_a_run_continues_from_its_checkpoint_alone(run):
    run("train", "train.txt", "-q", "--ranker", "perceptron", "--passes", 2, "--checkpoint", "c", "--every", 7, "--save", "a")
    out, _ = run("train", "--checkpoint", "c", "--save", "b", "--json")
    with open("a", "rb") as a, open("b", "rb") as b:
        assert a.read() == b.read()
    assert len(json.loads(out)["passes"]) == 2


def test_flags_are_shown_without_a_type(run):
    for command in ("train", "evaluate", "rank", "stream"):
        out, _ = run(command, "--help")
        assert not re.search(r"\bbool(ean)?\b", out.lower())


def test_a_trec_run_is_measured(run):
    with open("run", "w") as file:
        file.write("1 Q0 a 1 2.0 t\n1 Q0 b 2 2.0 t\n1 Q0 c 3 1.0 t\n2 Q0 a 1 1.0 t\n3 Q0 a 1 1.0 t\n")
    with open("qrels", "w") as file:
        file.write("1 0 a 1\n1 0 c 1\n1 0 z 2\n2 0 a 0\n2 0 b -1\n")
    out, _ = run(
        "evaluate", "run", "qrels", "--trec", "--json", "--metric", "map", "--metric", "recall@2", "--no-relevant", "zero"
    )
    # Query 1 is ranked b, a, c: equal scores stand in reverse order of their ids. Query 2 has nothing relevant, 3 no judgement.
    figures = json.loads(out)
    assert figures["queries"] == 2
    assert figures["metrics"]["map"] == pytest.approx((1 / 2 + 2 / 3) / 3 / 2)
    assert figures["metrics"]["recall@2"] == pytest.approx(1 / 3 / 2)


def test_trec_evals_figures_from_the_command_line(run):
    import pytrec_eval as trec

    rng = np.random.default_rng(0)
    judged = {f"q{q}": {f"d{i}": int(rng.integers(-1, 4)) for i in rng.permutation(40)[:20]} for q in range(30)}
    judged["q7"] = {"d1": 0}
    ranked = {f"q{q}": {f"d{i}": float(rng.integers(0, 8)) for i in rng.permutation(40)[:25]} for q in range(30)}
    with open("run", "w") as file:
        file.writelines(f"{q} Q0 {d} 0 {s} t\n" for q, scores in ranked.items() for d, s in scores.items())
    with open("qrels", "w") as file:
        file.writelines(f"{q} 0 {d} {grade}\n" for q, grades in judged.items() for d, grade in grades.items())
    names = {
        "map": "map", "ndcg_cut_10": "ndcg_linear@10", "ndcg": "ndcg_linear", "recip_rank": "mrr", "P_5": "p@5",
        "recall_10": "recall@10", "success_5": "hit_rate@5", "map_cut_10": "map@10",
    }  # fmt: skip
    # Where a grade is negative, trec_eval does not agree with itself about the document being judged; it is 0 in both here.
    judged = {q: {d: max(grade, 0) for d, grade in grades.items()} for q, grades in judged.items()}
    results = trec.RelevanceEvaluator(judged, {"map", "ndcg_cut", "ndcg", "recip_rank", "P", "recall", "success", "map_cut"})
    results = results.evaluate(ranked)
    options = [word for ours in names.values() for word in ("--metric", ours)]
    figures = json.loads(run("evaluate", "run", "qrels", "--trec", "--json", "--no-relevant", "zero", *options)[0])
    for theirs, ours in names.items():
        mean = np.mean([values[theirs] for values in results.values()])
        assert figures["metrics"][ours] == pytest.approx(mean, abs=1e-6), ours
    assert metric("ndcg_linear@10").name == "NDCG_linear@10"


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_goes_through_every_command(run, kind):
    import polars

    rng = np.random.default_rng(0)
    n = 240
    price = rng.normal(size=n)
    grades = (price + rng.normal(size=n) > 0.5).astype(int)
    table = polars.DataFrame(
        {"search": np.arange(n) // 8, "rel": grades, "url": ["u"] * n, "price": price, "age": rng.normal(size=n)}
    )
    getattr(table, f"write_{kind}")(f"train.{kind}")
    getattr(table.select("age", "price", "search", "rel"), f"write_{kind}")(f"test.{kind}")
    columns = ("--query", "search", "--grade", "rel")
    out, _ = run("train", f"train.{kind}", *columns, "--test", f"test.{kind}", "--save", "m", "--json")
    figures = json.loads(out)
    assert (figures["passes"][0]["queries"], figures["features"]) == (30, 2)
    assert load("m").feature_names == ("price", "age")
    # The columns of the other file stand in another order; names decide.
    measured = json.loads(run("evaluate", "m", f"test.{kind}", *columns, "--json")[0])["metrics"]["ndcg@10"]
    assert measured == figures["test"]["metrics"]["ndcg@10"] > 0.7
    assert len(run("rank", "m", f"test.{kind}", "--query", "search")[0].splitlines()) == n
    run("train", f"train.{kind}", *columns, "--report", "page", "-q")
    for arguments, message in [
        (("train", "train.txt", *columns), "LETOR text has no columns"),
        (("train", f"train.{kind}", *columns[:2]), "a table needs --grade COLUMN"),
        (("train", "train.txt", "--features", "price"), "LETOR text has no columns"),
    ]:
        with pytest.raises(AssertionError, match=message):
            run(*arguments)


@pytest.fixture
def log():
    """A log as pandas leaves it: an index, booleans, times, nulls and text, unsorted; clicks are known only with grades."""
    import pandas

    rng = np.random.default_rng(0)
    n = 400
    price, grade = rng.normal(size=n), rng.integers(0, 3, n)
    table = pandas.DataFrame(
        {
            "search": np.arange(n) // 8,
            "rel": grade,
            "url": [f"u{i}" for i in range(n)],
            "price": np.where(rng.random(n) < 0.1, np.nan, price + grade),
            "new": rng.random(n) < 0.5,
            "seen": pandas.Timestamp("2026-01-01") + pandas.to_timedelta(np.arange(n), "min"),
            "clicks": 10 * grade + rng.random(n),
        }
    )
    return table.sample(frac=1.0, random_state=0)


COLUMNS = ("--query", "search", "--grade", "rel")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_nothing_in_a_log_is_learned_or_dropped_silently(run, log, kind):
    file = f"log.{kind}"
    getattr(log, f"to_{kind}")(file)
    _, err = run("train", file, *COLUMNS, "--ranker", "perceptron")
    assert "missing values count as 0, since the model does not take them" in err
    assert "seen (a time: AdditiveRanker takes it" in err
    _, err = run("train", file, *COLUMNS, "--save", "m")
    told, *lines = err.splitlines()
    assert told.endswith(": rows are not sorted by 'search'; they are sorted here, which reads everything first")
    assert lines[0] == "online-rank: 4 features: price, new, seen, clicks"
    assert "the index of a pandas frame" in lines[1]
    assert "url (text " in lines[1]
    how = "ISO 8601" if kind == "csv" else "dates"
    assert lines[2] == f"online-rank: times: seen, feature ({how}, zone none given, read as UTC)"
    assert "a feature alone ranks the grades nearly perfectly: clicks (100.0% of pairs)" in lines[3]
    _, err = run("train", file, *COLUMNS, "--exclude", "clicks", "--event-time", "seen", "--document", "url", "--save", "m")
    assert "perfectly" not in err
    assert "rows are not sorted by 'seen' and 'search'" in err
    assert "times: seen, event time (" in err
    assert {*load("m").feature_names} == {"price", ("new", "is", "true"), ("new", "is", "false")}
    # To rank, the columns that the model knows are features, and documents have their ids.
    out, err = run("rank", "m", file, "--query", "search", "--document", "url")
    lines = err.splitlines()
    assert lines[0] == "online-rank: columns that the model has not learned from are left out: rel, clicks"
    assert lines[1].endswith("rows are not sorted by 'search'; they are sorted here, which reads everything first")
    assert {line.split()[2] for line in out.splitlines()} == {*log["url"]}
    _, err = run("rank", "m", file, "--query", "search")
    assert "name them with --document COLUMN" in err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_dry_run_shows_each_column(run, log, kind):
    getattr(log, f"to_{kind}")(f"log.{kind}")
    found = json.loads(run("train", f"log.{kind}", *COLUMNS, "--dry-run", "--json", "--save", "never")[0])
    columns = {column["name"]: column for column in found["columns"]}
    index = "" if kind == "csv" else "__index_level_0__"
    assert {name: (column["type"], column["role"]) for name, column in columns.items()} == {
        index: ("number", "left out"), "search": ("number", "query"), "rel": ("number", "grade"), "url": ("text", "left out"),
        "price": ("number", "feature"), "new": ("boolean", "feature"), "seen": ("time", "feature"),
        "clicks": ("number", "feature"),
    }  # fmt: skip
    assert columns["price"]["missing"] == pytest.approx(log["price"].isna().mean())
    assert columns["price"]["low"] == pytest.approx(log["price"].min())
    assert columns["clicks"]["high"] == pytest.approx(log["clicks"].max())
    assert found["rows"] == 400
    assert "clicks" in found["advice"][0]
    assert not Path("never").exists()
    shown = " ".join(run("train", f"log.{kind}", *COLUMNS, "--dry-run")[0].split())
    price = log["price"]
    assert f"price number feature {price.isna().mean():.1%} {price.min():.6g} {price.max():.6g}" in shown
    assert "url (text with 400 different values" in shown


def test_a_column_that_only_numbers_the_rows_is_named(run, log):
    log.fillna(0.0).sort_values("search").reset_index().to_parquet("log.parquet")
    for options in ((), ("--dry-run", "--json")):
        out, err = run("train", "log.parquet", *COLUMNS, *options)
        assert "another whole number in every row: index, seen. If it is an index, an id or a time" in out + err
    _, err = run("train", "log.parquet", *COLUMNS, "--exclude", "index,seen")
    assert "another whole number" not in err


def test_a_dry_run_shows_columns_of_every_type(run):
    import pyarrow
    from pyarrow import parquet

    n = 6
    columns = {
        "search": pyarrow.array([1, 1, 2, 2, 3, 3]), "rel": pyarrow.array([0, 1] * 3),
        "kind": pyarrow.array(["x", "y", None] * 2).dictionary_encode(),
        "big": pyarrow.array(["b"] * n, pyarrow.large_string()),
        "cost": pyarrow.array([Decimal("1.5"), None] * 3), "half": pyarrow.array(np.arange(n, dtype=np.float16)),
        "flag": pyarrow.array([True, None, False] * 2), "span": pyarrow.array([7] * n, pyarrow.duration("s")),
        "hour": pyarrow.array([3] * n, pyarrow.time32("s")), "day": pyarrow.array([0] * n, pyarrow.date32()),
        "bytes": pyarrow.array([b"x"] * n), "list": pyarrow.array([[1]] * n), "none": pyarrow.nulls(n),
    }  # fmt: skip
    parquet.write_table(pyarrow.table(columns), "log.parquet")
    found = json.loads(run("train", "log.parquet", *COLUMNS, "--dry-run", "--json")[0])["columns"]
    assert [column["name"] for column in found] == [*columns]
    assert {column["name"] for column in found if column["role"] == "feature"} == {
        "cost",
        "half",
        "flag",
        "kind",
        "span",
        "day",
        "list",
    }
    assert all(column["why"] for column in found if column["role"] == "left out")
    seen = {column["name"]: (column["missing"], column["low"], column["high"]) for column in found}
    assert seen["kind"] == (pytest.approx(1 / 3), "x", "y")
    assert seen["cost"] == (0.5, 1.5, 1.5)
    assert seen["flag"] == (pytest.approx(1 / 3), 0.0, 1.0)
    assert seen["span"] == (0.0, None, None)
    assert seen["none"][0] == 1.0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("LOG.CSV", "a table; name its columns: query="),
        ("log.tsv.gz", "a table; name its columns: query="),
        ("log.feather", "not a file of Arrow"),
        ("log.ndjson", "line 1: .*write one object a line"),
        ("log.parquet", "not a file of parquet"),
    ],
)
def test_a_file_that_is_no_letor_text_by_its_name_is_not_read_as_one(run, name, told):
    Path(name).write_text("q,g,a\n1,1,1\n")
    with pytest.raises(AssertionError, match=f"{name}.* {told}"):
        run("train", name)


def test_features_of_the_model_that_a_file_lacks_are_warned_of(run, log):
    log = log.sort_values("search").fillna(0.0)
    log.to_csv("log.csv", index=False)
    run("train", "log.csv", *COLUMNS, "-q", "--save", "m")
    log.rename(columns={"price": "prise"}).to_csv("other.csv", index=False)
    for command, options in (("evaluate", COLUMNS), ("rank", (*COLUMNS[:2], "--document", "url"))):
        _, err = run(command, "m", "other.csv", *options)
        assert "1 of the 4 features that the model has learned from are not in the file and count as 0: price" in err
        assert "columns that the model has not learned from are left out: " in err
        assert "prise\n" in err
    log[["search", "rel", "url"]].to_csv("none.csv", index=False)
    with pytest.raises(
        AssertionError, match="no column is called as one of the features of the model: price, new, seen, clicks"
    ):
        run("evaluate", "m", "none.csv", *COLUMNS)
    run("train", "train.txt", "-q", "--save", "text")
    (Path("short.txt")).write_text("0 qid:1 1:1 2:3\n1 qid:1 1:2 2:0\n")
    _, err = run("evaluate", "text", "short.txt")
    assert "1 of the 3 features that the model has learned from are not in the file and count as 0: 3" in err


def test_a_word_in_a_feature_of_the_model_is_an_error(run):
    rows = [f"{i // 5},{i % 2},{i}" for i in range(20)]
    Path("log.csv").write_text("\n".join(["q,g,a", *rows]))
    run("train", "log.csv", "--query", "q", "--grade", "g", "-q", "--save", "m")
    Path("bad.csv").write_text("\n".join(["q,g,a", *rows]).replace("1,1,7", "1,1,oops"))
    with pytest.raises(AssertionError, match=r"bad\.csv, line 9: 'oops' in column 'a' is not a number"):
        run("evaluate", "m", "bad.csv", "--query", "q", "--grade", "g")


def test_a_document_that_comes_twice_in_a_query_is_named(run, log):
    log = log.sort_values("search").fillna(0.0)
    log.to_csv("log.csv", index=False)
    run("train", "log.csv", *COLUMNS, "-q", "--save", "m")
    _, err = run("rank", "m", "log.csv", *COLUMNS[:2], "--document", "url")
    assert "more than once" not in err
    log.assign(url="same").to_csv("twice.csv", index=False)
    _, err = run("rank", "m", "twice.csv", *COLUMNS[:2], "--document", "url")
    assert err.count("more than once in the run") == 1
    assert err.count("has document 'same' several times") == 1
    log.assign(url="same", rel=1).to_csv("equal.csv", index=False)
    _, err = run("train", "equal.csv", *COLUMNS, "--document", "url", "--save", "again")
    assert err.count("has document 'same' several times") == 1
    _, err = run("train", "twice.csv", *COLUMNS, "--document", "url", "--save", "no", code=2)
    assert "judges document 'same' twice, with grades " in err


def test_ids_that_a_run_cannot_hold_are_printed_and_stay_different(run):
    rows = ["red shoes,1,x y,1", "red shoes,0,x_y,2", "red  shoes,1,100%,1", "red%20shoes,1,\N{NO-BREAK SPACE},1"]
    Path("log.csv").write_text("\n".join(["q,g,d,a", *rows, "lamp,1,u,1", "lamp,0,NA,2", ""]))
    run("train", "log.csv", "--query", "q", "--grade", "g", "--exclude", "d", "-q", "--save", "m")
    out, err = run("rank", "m", "log.csv", "--query", "q", "--document", "d")
    assert {tuple(line.split()[:3]) for line in out.splitlines()} == {
        ("red%20shoes", "Q0", "x%20y"),
        ("red%20shoes", "Q0", "x_y"),
        ("red%20%20shoes", "Q0", "100%"),
        ("red%2520shoes", "Q0", "%C2%A0"),
        ("lamp", "Q0", "u"),
        ("lamp", "Q0", "NA"),
    }
    assert "query 'red shoes': white space separates the columns of a run: it is written as %20" in err
    assert "more than once" not in err
    Path("gap.csv").write_text("q,g,d,a\nlamp,1,u,1\nlamp,0,,2\n")
    with pytest.raises(AssertionError, match=r"gap\.csv: query lamp: document 2 has no id in column 'd'"):
        run("rank", "m", "gap.csv", "--query", "q", "--document", "d")


@pytest.mark.parametrize("options", [(), ("--query", "q", "--grade", "g")], ids=["text", "table"])
def test_files_without_queries_are_no_success(run, options):
    head = "log.csv" if options else "log.txt"
    Path(head).write_text("q,g,a\n1,1,1\n1,0,2\n" if options else "1 qid:1 1:1\n0 qid:1 1:2\n")
    run("train", head, *options, "-q", "--save", "m")
    empty = "empty.parquet" if options else "empty.txt"
    if options:
        pytest.importorskip("pandas").read_csv(head).iloc[:0].to_parquet(empty)
    else:
        Path(empty).write_text("# nothing\n")
    with pytest.raises(AssertionError, match=f"{empty}: no queries to learn from"):
        run("train", empty, *options, "--save", "none")
    assert not Path("none").exists()
    with pytest.raises(AssertionError, match=f"{empty}: no queries to measure"):
        run("evaluate", "m", empty, *options)
    _, err = run("rank", "m", empty, *options[:2])
    assert f"{empty}: no queries to rank" in err


def test_the_range_of_a_column_of_ids_covers_its_numbers(run, log):
    log.assign(search=np.arange(400) // 8 + 1).to_csv("log.csv", index=False)
    found = json.loads(run("train", "log.csv", *COLUMNS, "--dry-run", "--json")[0])
    ids = next(column for column in found["columns"] if column["name"] == "search")
    assert (ids["low"], ids["high"]) == (1.0, 50.0)


def test_a_table_is_certified(run, log):
    log.sort_values("search").fillna(0.0).to_parquet("log.parquet")
    out, _ = run("train", "log.parquet", *COLUMNS, "--exclude", "clicks", "--ranker", "perceptron", "--certify", "--json")
    certificate = json.loads(out)["certificate"]
    assert certificate["holds"]
    assert certificate["comparator"] == "batch weights"


def test_a_database_needs_no_directory(run):
    _, err = run("stream", "--checkpoint", "postgresql://user:secret@127.0.0.1:1/shop", code=2)
    assert "directory" not in err
    assert "secret" not in err


OUTPUTS = ("--save", "--report", "--checkpoint")


def test_output_does_not_go_over_what_is_read(run):
    run("train", "train.txt", "--ranker", "perceptron", "-q", "--save", "m")
    Path("map.json").write_text('{"f1": "a"}')
    Path("link").symlink_to("m")
    read = ("train.txt", "m", "map.json")
    before = [Path(name).read_bytes() for name in read]
    solr = ("export", "m", "--to", "solr", "--map-feature", "map.json")
    for arguments, message in [
        (("train", "train.txt", "--save", "train.txt"), "--save train.txt: that is an input file"),
        (("train", "train.txt", "--save", "./train.txt"), "that is an input file"),
        (("train", "train.txt", "--test", "test.txt", "--save", "test.txt"), "--save test.txt: that is an input file"),
        (("train", "train.txt", "--report", "train.txt"), "--report train.txt: that is an input file"),
        (("train", "train.txt", "--checkpoint", "train.txt"), "--checkpoint train.txt: that is an input file"),
        *((("train", "train.txt", option, "-"), f"{option} -: a file or folder is needed") for option in OUTPUTS),
        *(
            (("stream", "m", option, "-"), f"{option} -: a file or folder is needed here")
            for option in ("--save", "--checkpoint")
        ),
        (("export", "m", "--to", "json", "--out", "-"), "--out -: a file or folder is needed here"),
        (("export", "m", "--to", "json", "--out", "m"), "--out m: that is an input file"),
        (("export", "m", "--to", "json", "--out", "link"), "--out link: that is an input file"),
        (("export", "link", "--to", "json", "--out", "m"), "--out m: that is an input file"),
        ((*solr, "--out", "map.json"), "--out map.json: that is an input file"),
        ((*solr, "--features-out", "map.json"), "--features-out map.json: that is an input file"),
        ((*solr, "--out", "new", "--features-out", "./new"), "--features-out ./new: another file is written there"),
        (("export", "m", "--to", "json", "--features-out", "f"), "--features-out writes Solr's feature store"),
    ]:
        with pytest.raises(AssertionError, match=message):
            run(*arguments)
    assert [Path(name).read_bytes() for name in read] == before
    assert not Path("-").exists()
    assert not Path("new").exists()


@pytest.mark.parametrize("head", [b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7zXZ\x00", b"PK\x03\x04"])
def test_files_that_are_packed_otherwise_are_named(run, head):
    Path("log.txt").write_bytes(head + bytes(range(100)))
    with pytest.raises(AssertionError, match=r"log\.txt: (compressed by|a zip archive)"):
        run("train", "log.txt")
    with pytest.raises(ValueError, match=r"compressed by|a zip archive"):
        list(read(io.BytesIO(head + b"more")))


def test_text_that_counts_features_from_0_lacks_values_and_ends_its_lines_with_cr(run):
    lines = [f"{i % 2} qid:{i // 4} 0:{'nan' if i == 5 else i % 2} 1:NULL" for i in range(40)]
    Path("log.txt").write_bytes("\r".join(lines).encode())
    assert json.loads(run("train", "log.txt", "--ranker", "perceptron", "--json", "--save", "m")[0])["features"] == 2
    measured = json.loads(run("evaluate", "m", "log.txt", "--json")[0])
    assert measured["metrics"]["ndcg@10"] > 0.9


def test_more_features_than_are_guessed(run):
    Path("wide.txt").write_text("0 qid:1 1:1 70000:2\n1 qid:1 1:2\n")
    assert json.loads(run("train", "wide.txt", "--json")[0])["features"] == 70000
    Path("wide.txt").write_text("0 qid:1 1:1 99999999:2\n1 qid:1 1:2\n")
    with pytest.raises(AssertionError, match=r"feature 99999999: more than 16777216 are not inferred"):
        run("train", "wide.txt")


def test_the_names_of_documents_in_comments(run):
    run("train", "train.txt", "-q", "--save", "m")
    Path("es.txt").write_text(
        "4 qid:1 1:9.8 2:1 3:1 # 7555 rambo\n0 qid:1 1:1 2:1 3:1 # 1370\trambo\n1 qid:1 1:1 2:0 3:2 #docid = x\n"
    )
    out, _ = run("rank", "m", "es.txt")
    assert {line.split()[2] for line in out.splitlines()} == {"7555", "1370", "x"}


def test_features_are_mapped_by_name_or_from_a_file(run):
    run("train", "train.txt", "--ranker", "perceptron", "-q", "--save", "m")
    features = json.loads(run("export", "m", "--to", "json", "--map-feature", "2=age")[0])["features"]
    assert features == ["f1", "age", "f3"]
    Path("map.json").write_text(json.dumps({"f1": "price", "f3": "clicks"}))
    features = json.loads(run("export", "m", "--to", "json", "--map-feature", "map.json", "--map-feature", "f2=age")[0])[
        "features"
    ]
    assert features == ["price", "age", "clicks"]
    run("export", "m", "--to", "solr", "--features-out", "store.json", "--map-feature", "map.json")
    assert [feature["name"] for feature in json.loads(Path("store.json").read_text())] == ["price", "f2", "clicks"]
    Path("bad.json").write_text("{")
    for arguments, message in [
        (("--map-feature", "f9=age"), "the model has no feature 'f9'"),
        (("--map-feature", "bad.json"), "neither NAME=TARGET nor a file of JSON"),
    ]:
        with pytest.raises(AssertionError, match=message):
            run("export", "m", "--to", "json", *arguments)


def test_a_service_s_folder_is_a_model(run):
    from online_rank import PerceptronRanker
    from online_rank.serving.durable import DurableService
    from online_rank.serving.protocol import RankingService

    durable = DurableService(RankingService(PerceptronRanker.from_weights([1.0, 0.5, 0.25])), "state", 10)
    durable.save()
    made = json.loads(run("export", "state", "--to", "json")[0])
    assert made["weights"] == [1.0, 0.5, 0.25]
    assert "mean" in run("evaluate", "state", "test.txt")[0]
    assert run("rank", "state", "test.txt")[0]
    durable.close()


def test_why_a_document_ranks_above_another(run, log):
    run("train", "train.txt", "-q", "--save", "m")
    model = load("m")
    X, _ = next(read("train.txt"))
    scores = model.predict_one(X)
    best, second = sorted(range(4), key=scores.__getitem__, reverse=True)[:2]
    found = json.loads(run("explain", "m", "train.txt", "--id", "0", "--json")[0])
    assert (found["a"], found["b"]) == (str(best + 1), str(second + 1))
    assert found["difference"] == pytest.approx(scores[best] - scores[second])
    assert sum(found["contributions"].values()) == pytest.approx(found["difference"])
    log.sort_values("search").fillna(0.0).to_csv("log.csv", index=False)
    run("train", "log.csv", *COLUMNS, "-q", "--save", "t")
    out, _ = run("explain", "t", "log.csv", *COLUMNS[:2], "--document", "url", "--id", "3", "--a", "u25", "--b", "u30")
    assert out.startswith("score of u25 minus score of u30: ")
    assert "  clicks" in out
    for arguments, message in [
        (("--id", "77"), "there is no query '77'"),
        (("--id", "3", "--a", "9"), "query 3 has no document '9'; there are 1, 2, 3, 4"),
    ]:
        with pytest.raises(AssertionError, match=message):
            run("explain", "m", "train.txt", *arguments)


def test_linear_weights_can_be_deployed(run):
    run("train", "train.txt", "--ranker", "perceptron", "-q", "--save", "m")
    for to in ("c", "json", "solr"):
        text, _ = run("export", "m", "--to", to)
        assert all(name in text for name in ("f1", "f2", "f3"))


def test_curves_of_ranks_are_refused_by_engines_with_the_reason(run):
    run("train", "train.txt", "-q", "--save", "m")
    with pytest.raises(AssertionError, match=r"scores documents relative to their query.*relative=False does not"):
        run("export", "m", "--to", "solr")


#: Files that were opened, while a test counts them.
OPENED: list[str] = []


def _note(event, arguments):
    if event == "open" and OPENED and str(arguments[0]).endswith(OPENED[0]):
        OPENED.append(str(arguments[0]))


@pytest.mark.parametrize(("options", "times"), [((), 1), (("--ranker", "perceptron", "--certify"), 2), (("--dry-run",), 1)])
@pytest.mark.parametrize("name", ["train.txt", "log.csv"])
def test_a_file_is_opened_once_and_twice_to_certify(run, name, options, times):
    Path("log.csv").write_text("query,grade,x\n" + "".join(f"{i // 4},{i % 2},{i % 3}\n" for i in range(80)))
    if not hasattr(sys, "_online_rank_counts_opens"):
        sys.addaudithook(_note)  # which stays
        sys._online_rank_counts_opens = True
    OPENED[:] = [name]
    try:
        run("train", name, *(() if name == "train.txt" else ("--grade", "grade")), *options)
        assert len(OPENED) - 1 == times
    finally:
        OPENED.clear()
