"""Columns of click logs: named by options, or recognised by common names, in all commands."""

import json
import random

import pytest

#: How each kind of log calls its columns: lists, documents, positions, clicks, probabilities.
USUAL = ("query", "document", "position", "click", "propensity")
COMMON = ("session_id", "jobId", "Rank", "clicked", "probability")
ODD = ("visit", "vacancy", "row_on_page", "applied_to", "chance")
OPTIONS = ("--query", "--document", "--position", "--click", "--propensity")


def log(columns, n=60, last=True):
    """Lists of three documents in random order; users click on the best one if they look at its position."""
    draw, lines = random.Random(0), [",".join([*columns[: len(columns) if last else 4], "topic", "quality", "when"])]
    for k in range(n):
        order = draw.sample(range(3), 3)
        for place, d in enumerate(order, start=1):
            clicked = int(d == 0 and draw.random() < 1 / place)
            row = [f"l{k}", f"d{d}", place, clicked, *([1 / (4 - place)] if last else []), f"t{k % 2}", 3 - d, k]
            lines.append(",".join(map(str, row)))
    return "\n".join(lines) + "\n"


def named(columns, but=()):
    return [part for option, column in zip(OPTIONS, columns, strict=True) if option not in but for part in (option, column)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, columns in (("usual", USUAL), ("common", COMMON), ("odd", ODD)):
        (tmp_path / f"{name}.csv").write_text(log(columns))
        (tmp_path / f"{name}_short.csv").write_text(log(columns, last=False))
    return tmp_path


RECOGNISED = "'session_id' is the query, 'jobId' is the document, 'Rank' is the position, 'clicked' is the click"


@pytest.mark.slow
def test_train_names_and_recognises_all_columns(run, folder):
    """A table with another name for the position was refused, and no option could name it."""
    found = {}
    for name, options in (("usual", []), ("common", []), ("odd", named(ODD))):
        given = ["train", f"{name}.csv", "--clicks", "above", "--features", "quality", "--json", *options]
        code, out, err = run(*given)
        assert code == 0, err
        found[name] = {key: value for key, value in json.loads(out).items() if key != "files"}
        assert (f"common.csv: recognised by their names: {RECOGNISED}, 'probability' is the propensity" in err) == (
            name == "common"
        )
    assert found["usual"] == found["common"] == found["odd"]
    assert found["usual"]["lists"] == 60


def test_grades_names_and_recognises_all_columns(run, folder):
    found = {}
    for name, options in (("usual", []), ("common", []), ("odd", named(ODD, but=["--propensity"]))):
        given = ["grades", f"{name}_short.csv", "--topic", "topic", "--out", f"{name}.out.csv"]
        code, _, err = run(*given, "--examination", "none", *options)
        assert code == 0, err
        found[name] = (folder / f"{name}.out.csv").read_text()
        assert (RECOGNISED in err) == (name == "common")
    assert found["usual"] == found["common"] == found["odd"]


@pytest.mark.slow
def test_compare_names_and_recognises_all_columns(run, folder):
    for save, more in (("a", []), ("b", ["--ranker", "perceptron"])):
        assert run("train", "usual.csv", "--clicks", "above", "--features", "quality", "-q", "--save", save, *more)[0] == 0
    found = []
    for name, options in (("usual", []), ("common", []), ("odd", named(ODD))):
        code, out, err = run("compare", "a", "b", f"{name}.csv", "--clicks", "above", "--json", *options)
        assert code == 0, err
        found.append(json.loads(out))
        assert (RECOGNISED in err) == (name == "common")
    assert found[0] == found[1] == found[2]
    code, _, err = run(
        "compare", "a", "b", "usual.csv", "--clicks", "above", "--event-time", "when", "--feedback-window", "30m"
    )
    assert code == 0, err


def test_fuse_names_and_recognises_all_columns(run, folder):
    for retriever, order in (("bm25", "d0 d1 d2"), ("vector", "d1 d0 d2")):
        lines = [f"t{q} Q0 {d} {i} {9 - i} x\n" for q in range(2) for i, d in enumerate(order.split(), start=1)]
        (folder / f"{retriever}.run").write_text("".join(lines))
    (folder / "usual.csv").write_text(log(("list", *USUAL[1:])).replace("topic", "query", 1))
    found = []
    for name, options in (("usual", []), ("common", ["--topic", "topic"]), ("odd", ["--topic", "topic", *named(ODD)])):
        given = ["fuse", "bm25.run", "vector.run", "--click-log", f"{name}.csv", "--clicks", "above", "--json"]
        code, out, err = run(*given, *options)
        assert code == 0, err
        found.append(json.loads(out))
    assert found[0] == found[1] == found[2]
    assert found[0]["lists"] == 60
    code, _, err = run("fuse", "bm25.run", "vector.run", "--qrels", "x", "--position", "p")
    assert code == 2
    assert "--position needs --click-log" in err


def test_a_dry_run_shows_what_was_recognised(run, folder):
    code, out, err = run("train", "common.csv", "--clicks", "above", "--dry-run", "--json")
    assert code == 0, err
    roles = {column["name"]: column["role"] for column in json.loads(out)["columns"]}
    assert [roles[name] for name in COMMON] == ["query", "document", "position", "click", "propensity"]
    assert json.loads(out)["format"] == "csv"


def test_letor_text_is_no_log_of_clicks(run, folder):
    (folder / "letor.txt").write_text("".join(f"{i % 2} qid:{i // 4} 1:{i % 3}\n" for i in range(80)))
    for files in (["letor.txt"], ["usual.csv", "letor.txt"]):
        code, _, err = run("train", *files, "--clicks", "moved", "--examination", "none")
        assert code == 2
        assert "letor.txt: LETOR text has no positions and clicks: a log of clicks is a table" in err


@pytest.mark.parametrize("role", ["click", "position", "propensity"])
def test_times_are_no_clicks_positions_or_propensities(run, folder, role):
    names = ["query", "document", "position", "click", "propensity", "size"]
    rows = [["q1", "a", 1, 0, 0.5, 1], ["q1", "b", 2, 1, 0.5, 2]]
    for i, row in enumerate(rows):
        row[names.index(role)] = f"2026-03-0{i + 1}T09:30:00Z"
    (folder / "when.csv").write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]))
    code, _, err = run("train", "when.csv", "--clicks", "place")
    assert code == 2
    assert f"when.csv: column '{role}', the {role}, holds times, and numbers are wanted" in err


def test_a_column_that_is_not_there_is_named(run, folder):
    code, _, err = run("train", "odd.csv", "--clicks", "moved", "--examination", "none")
    assert code == 2
    assert "odd.csv: no columns 'query', 'document', 'position', 'click'; there are 'visit', 'vacancy', 'row_on_page'" in err
    code, _, err = run("train", "common.csv", "--clicks", "moved", "--examination", "none", "--position", "place")
    assert code == 2
    assert "common.csv: no column 'place'" in err
    code, _, err = run("train", "usual.csv", "--clicks", "moved", "--propensity", "propensity")
    assert code == 2
    assert "--propensity is for --clicks above and place" in err
