"""`online-rank fuse`: runs and judgements in, figures, a run and a model out."""

import json
import math
import os
import re

import numpy as np
import pytest

from online_rank import Runs, load
from online_rank.cli.runs import write_run
from online_rank.stream.trec import read_run
from tests.helpers import run_command

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
    return run_command(capsys, "fuse", *arguments)


def ndcg(place):
    """Of one relevant document at a place, where another one was never returned."""
    best = 1.0 + 1.0 / math.log2(3)
    return 1.0 / math.log2(place + 1) / best


def test_figures_are_over_all_that_was_judged(folder, capsys):
    code, out, err = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels", "--json")
    report = json.loads(out)
    assert code == 0
    assert "count for nothing" not in err
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


def test_served_rankings_are_certified_against_todays_rule(folder, capsys):
    code, out, _ = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels", "--today", "minmax", "--json")
    assert code == 0
    certified = json.loads(out)["certificate"]
    # Over the candidates, one of which is relevant, the rule ranks it third.
    assert certified["today"] == pytest.approx(30 * (1.0 - 1.0 / math.log2(4)))
    # ln(1 / pi) is .63; Delta and G add less than that here.
    assert certified["served"] <= certified["at_most"] <= certified["today"] + 1.0
    assert certified["at_most"] < certified["counted"] == 30
    code, out, _ = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels", "--today", "minmax")
    assert "Certified over the candidates: minmax lost 15.00, served" in " ".join(out.split())


def test_a_saved_fusion_ranks_and_explains_runs(folder, capsys):
    given = ["bm25.run", "vector.run", "--qrels", "qrels", "--save", "m", "--out", "fused"]
    assert run(capsys, *given)[0] == 0
    model, both = load("m"), ["--run", "bm25.run", "--run", "vector.run"]
    code, out, err = run_command(capsys, "rank", "m", *both)
    assert code == 0, err
    (folder / "again.run").write_text(out)
    assert [*read_run("again.run")["q3"]] == model.rank_one(Runs({"bm25": BM25, "vector": VECTOR}))
    assert len(read_run("again.run")) == 31
    code, out, err = run_command(capsys, "explain", "m", *both, "--id", "q3", "--a", "r", "--b", "a", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["a"], found["b"]) == ("r", "a")
    assert {name.rpartition(" ")[0] for name in found["contributions"]} == {"bm25", "vector"}
    assert sum(found["contributions"].values()) == pytest.approx(found["difference"], abs=1e-9)
    assert [*map(abs, found["contributions"].values())] == sorted(map(abs, found["contributions"].values()), reverse=True)
    for arguments, said in (
        (["--id", "none"], "there is no query 'none'"),
        (["--id", "q30"], "has one document"),
        (["--id", "q3", "--a", "x"], "has no document 'x'"),
    ):
        code, _, err = run_command(capsys, "explain", "m", *both, *arguments)
        assert code != 0
        assert said in err
    for command in (["rank", "m"], ["rank", "m", "bm25.run", *both], ["explain", "m", "--id", "q"]):
        code, _, err = run_command(capsys, *command)
        assert code == 2
        assert "give FILE, or --run for each retriever" in err


def test_people_see_rules_and_differences(folder, capsys):
    code, out, _ = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels")
    assert code == 0
    for said in (
        "31 queries, 30 judged",
        "reciprocal rank fusion",
        "mean of min-max scores",
        "learned, beginning with minmax",
        "bm25: ",
    ):
        assert said in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bm25.run"], "give at least two runs"),
        (["bm25.run", "bm25.run"], "need different names"),
        (["bm25.run", "rrf.run"], "need different names"),
        (["bm25.run", "vector.run", "--out", "bm25.run"], "that is an input file"),
        (["bm25.run", "vector.run", "--out", "new", "--save", "./new"], "another file is written there"),
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


@pytest.mark.parametrize(
    ("renamed", "message"),
    [
        (lambda qid, docid: (f"x{qid}", docid), "has no query of the others"),
        (lambda qid, docid: (qid, f"doc{docid}"), "judges no document of other"),
    ],
)
def test_ids_written_differently_raise_a_warning(folder, capsys, renamed, message):
    """The other run was silently taken for one that finds nothing."""
    other = {}
    for i in range(30):
        for docid, score in VECTOR.items():
            qid, name = renamed(f"q{i}", docid)
            other.setdefault(qid, {})[name] = score
    write_run("other.run", other)
    _, _, err = run(capsys, "bm25.run", "other.run", "--qrels", "qrels")
    assert message in " ".join(err.split())
    (folder / "qrels").write_text("".join(f"q{i} 0 elsewhere 1\n" for i in range(30)))
    code, _, err = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels")
    assert code == 2
    assert "judges no document of the runs" in err


def test_judged_queries_without_a_run_are_printed(folder, capsys):
    with (folder / "qrels").open("a") as file:
        file.write("q98 0 r 1\nq99 0 r 1\n")
    code, _, err = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels")
    assert code == 0
    assert "judges 2 queries that no run has" in err


def test_files_of_a_saved_fusion_have_the_names_of_its_runs(folder, capsys):
    """A file of another name was taken for a retriever that found nothing, until its first document; a missing one always."""
    write_run("third.run", {f"q{i}": {"b": 2.0, "r": 1.0} for i in range(30)})
    assert run(capsys, "bm25.run", "vector.run", "third.run", "--qrels", "qrels", "--save", "m")[0] == 0
    write_run("typo.run", {"q29": VECTOR})
    for command in (["rank", "m"], ["explain", "m", "--id", "q1"], ["export", "m", "--to", "sql"]):
        code, out, err = run_command(capsys, *command, "--run", "bm25.run", "--run", "typo.run")
        assert (code, out) == (2, "")
        assert "no run 'typo'" in err
    code, out, err = run_command(capsys, "rank", "m", "--run", "bm25.run", "--run", "vector.run")
    assert code == 0
    assert len(out.splitlines()) == 121
    assert "without third, none of its documents counts as found" in " ".join(err.split())
    code, out, err = run_command(capsys, "export", "m", "--to", "sql", "--run", "bm25.run", "--run", "vector.run")
    assert (code, out) == (2, "")
    assert "no query has a document of the run 'third'" in " ".join(err.split())


@pytest.mark.parametrize(("run_", "message"), [({"a b": {"d": 1.0}}, "query 'a b'"), ({"q": {"": 1.0}}, "document ''")])
def test_runs_that_cannot_be_read_again_are_not_written(tmp_path, run_, message):
    with pytest.raises(ValueError, match=message):
        write_run(tmp_path / "run", run_)
    with pytest.raises(ValueError, match="finite"):
        write_run(tmp_path / "run", {"q": {"d": np.nan}})
    assert not list(tmp_path.iterdir())


def test_a_run_does_not_take_the_place_of_a_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        write_run(tmp_path / "pipe", {"q": {"d": 1.0}})
    assert [*tmp_path.iterdir()] == [tmp_path / "pipe"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.fixture
def clicked(folder):
    """Lists of the five candidates in random order, of users who look for r, and of another query."""
    rng, rows = np.random.default_rng(0), ["list,query,document,position,click"]
    for number in range(300):
        order = rng.permutation(["a", "b", "r", "c"]).tolist()
        qid = f"q{number % 30}" if number % 10 else "elsewhere"
        rows += [f"{number},{qid},{d},{place},{int(d == 'r')}" for place, d in enumerate(order, start=1)]
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.mark.slow
def test_clicks_in_place_of_judgements(clicked, capsys):
    given = [
        "bm25.run",
        "vector.run",
        "--click-log",
        "log.csv",
        "--clicks",
        "shuffled",
        "--today",
        "minmax",
        "--out",
        "fused",
        "--save",
        "m",
    ]
    code, out, err = run(capsys, *given, "--json")
    assert code == 0, err
    report = json.loads(out)
    assert (report["lists"], report["clicked"], report["other_queries"]) == (270, 270, 30)
    # The rule ranks b first, which is never clicked.
    assert report["value_first"]["today"]["mean"] == 0.0
    assert report["value_first"]["learned"]["mean"] > 0.5
    assert report["shares"]["vector"] > 0.5 > report["shares"]["bm25"]
    assert next(iter(read_run("fused")["q0"])) == "r"
    assert load("m").rank_one(Runs({"bm25": BM25, "vector": VECTOR}))[0] == "r"
    for name in ("fused", "m"):
        (clicked / name).unlink()
    code, out, _ = run(capsys, *given)
    assert code == 0
    assert "270 lists, 270 with a click; 30 of queries that the runs lack" in " ".join(out.split())
    assert "vector: +" in out


@pytest.mark.slow
def test_clicks_on_lists_with_probabilities_and_without_any(clicked, capsys):
    lines = (clicked / "log.csv").read_text().splitlines()
    # In random order a document has the chance of 1 in those that are left.
    rows = [f"{line},{1 / (5 - int(line.split(',')[3]))}" for line in lines[1:]]
    (clicked / "chances.csv").write_text("\n".join([f"{lines[0]},propensity", *rows]) + "\n")
    for table, origin in (("chances.csv", "above"), ("log.csv", "moved")):
        given = ["bm25.run", "vector.run", "--click-log", table, "--clicks", origin, "--json"]
        code, out, err = run(capsys, *given)
        assert code == 0, err
        report = json.loads(out)
        assert report["shares"]["vector"] > report["shares"]["bm25"]
        assert set(report["value_first"]) == ({"today", "learned"} if origin == "above" else set())


def test_clicks_of_more_than_one_are_valued_as_fractions_of_the_largest(clicked, capsys):
    (clicked / "log.csv").write_text((clicked / "log.csv").read_text().replace(",1\n", ",3\n"))
    code, out, err = run(capsys, "bm25.run", "vector.run", "--click-log", "log.csv", "--clicks", "shuffled", "--json")
    assert code == 0, err
    report = json.loads(out)
    # As with clicks of 1: the rule ranks b first, which is never clicked.
    assert report["value_first"]["today"]["mean"] == 0.0
    assert 0.5 < report["value_first"]["learned"]["mean"] < 1.1
    assert report["verdict"].startswith("what was learned beats today's rule (minmax): ")
    assert report["shares"]["vector"] > 0.5


def test_judgements_or_clicks(clicked, capsys):
    runs = ["bm25.run", "vector.run"]
    for given in ([], ["--qrels", "qrels", "--click-log", "log.csv"]):
        code, _, err = run(capsys, *runs, *given)
        assert code == 2
        assert "give --qrels, or --click-log" in err
    (clicked / "log.csv").write_text("list,query,document,position,click\n1,none,a,1,0\n1,none,b,2,1\n")
    for given in (["--click-log", "log.csv"], ["--qrels", "qrels", "--clicks", "shuffled"]):
        code, _, err = run(capsys, *runs, *given)
        assert code == 2
        assert "--click-log and --clicks go together" in err
    code, _, err = run(capsys, *runs, "--click-log", "log.csv", "--clicks", "shuffled")
    assert code != 0
    assert "no list of a query of the runs" in err


def test_an_ordinary_log_is_not_taken_for_random_lists(clicked, capsys):
    # The same five documents, shown as one rule ranks them: the value of the first was given as many clicks a list.
    rows = ["list,query,document,position,click"]
    for t in range(60):
        rows += [f"{t},q{t % 10},{document},{place},{int(place == 1)}" for place, document in enumerate("rbcde", start=1)]
    (clicked / "ordinary.csv").write_text("\n".join(rows) + "\n")
    given = ["bm25.run", "vector.run", "--click-log", "ordinary.csv"]
    code, out, err = run(capsys, *given, "--clicks", "shuffled", "--out", "fused")
    assert (code, out) == (2, "")
    assert re.search(r"ordinary.csv, line \d+, .*the list shown before comes again .* times as often", err)
    code, _, err = run(capsys, *given, "--clicks", "moved", "--out", "fused")
    assert code == 2
    assert "the log is deterministic" in err
    assert not (clicked / "fused").exists()


def test_a_dry_run_shows_what_is_in_runs_and_judgements(folder, capsys):
    """And does nothing else."""
    for options in (("--qrels", "qrels"), ("--qrels", "qrels", "--out", "fused", "--save", "m")):
        code, out, _ = run(capsys, "bm25.run", "vector.run", *options, "--dry-run", "--json")
        found = json.loads(out)
        assert code == 0
        assert found["common"] == 30
        assert found["files"] == [
            {"file": "bm25.run", "becomes": "score", "lists": 30, "documents": 90, "low": 1.0, "high": 9.0},
            {"file": "vector.run", "becomes": "score", "lists": 31, "documents": 91, "low": pytest.approx(0.1), "high": 1.0},
            {"file": "qrels", "becomes": "grade", "lists": 30, "documents": 60, "low": 1, "high": 1},
        ]
    assert not (folder / "fused").exists()
    assert not (folder / "m").exists()
    code, out, _ = run(capsys, "bm25.run", "vector.run", "--qrels", "qrels", "--dry-run")
    assert "30 queries are in all files" in out
    (folder / "log.csv").write_text("list,query,document,position,click\nl1,q1,a,1,0\nl1,q1,b,2,1\n")
    code, out, _ = run(capsys, "bm25.run", "vector.run", "--click-log", "log.csv", "--clicks", "moved", "--dry-run", "--json")
    assert (code, json.loads(out)["lists"]) == (0, 1)
    for command in (
        ("evaluate", "bm25.run", "qrels", "--trec"),
        ("rank", "no-model", "--run", "bm25.run", "--run", "vector.run"),
    ):
        code, out, _ = run_command(capsys, *command, "--dry-run")
        assert code == 0
        assert "bm25.run" in out
