"""Files with the wrong column of queries or grades, or with other features than the model."""

import pytest

COLUMNS = ("--query", "query", "--grade", "grade")
ROWS = [(f"q{q}", f"{d / 7:.2f}", color, int(d > 2)) for q in range(6) for d, color in enumerate(("red", "1", "2", "1", "red"))]


def table(rows):
    return "query,price,color,grade\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


@pytest.fixture
def run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    (tmp_path / "log.csv").write_text(table(ROWS))
    assert run("train", "log.csv", *COLUMNS, "-q", "--ranker", "perceptron", "--save", "weights")[0] == 0
    return run


def written(name, rows):
    with open(name, "w") as file:
        file.write(table(rows))
    return name


@pytest.mark.parametrize(
    "rows",
    [
        [(f"q{i}", *row[1:]) for i, row in enumerate(ROWS)],  # a query for each row
        [(*row[:3], 0) for row in ROWS],
        [(*row[:3], 3) for row in ROWS],
    ],
)
def test_files_that_order_no_documents_raise_a_warning(run, rows):
    file = written("same.csv", rows)
    for command in (("train", file, "--ranker", "perceptron"), ("evaluate", "weights", file)):
        code, _, err = run(*command, *COLUMNS)
        assert code == 0
        assert "in no query have two documents different grades" in err
    assert "in no query" not in run("evaluate", "weights", "log.csv", *COLUMNS)[2]


def test_a_file_without_any_feature_of_the_model_is_refused(run):
    with open("text.txt", "w") as file:
        file.write("1 qid:1 1:2\n0 qid:1 1:3\n")
    code, out, err = run("rank", "weights", "text.txt")
    assert (code, out) == (2, "")
    assert "text.txt: it has none of the features of the model: price" in err


def test_words_in_a_feature_of_numbers_are_named_with_their_row(run):
    file = written("words.csv", [(query, "high" if float(price) > 0.3 else "low", *more) for query, price, *more in ROWS])
    for command in ("evaluate", "rank"):
        code, _, err = run(command, "weights", file, *(COLUMNS if command == "evaluate" else COLUMNS[:2]))
        assert code == 2
        assert "words.csv, line 2: 'low' in column 'price' is not a number" in err


@pytest.mark.slow
def test_categories_stay_categories(run):
    """Also in a file in which all words of a column are numbers, and numbers stay numbers."""
    assert run("train", "log.csv", *COLUMNS, "-q", "--save", "curves")[0] == 0
    codes = written("codes.csv", [row for row in ROWS if row[2] != "red"])
    assert run("evaluate", "curves", codes, *COLUMNS)[0] == 0
    code, _, err = run("evaluate", "curves", written("words.csv", [("q", "high", "red", 1), ("q", "low", "1", 0)]), *COLUMNS)
    assert code == 2
    assert "words.csv, line 2: 'high' in column 'price' is not a number" in err


def test_a_dry_run_in_which_no_list_can_be_read_fails(run):
    """A script that looks at the plan first continued."""
    bad = "q,t,f,g\n1,01/02/2026,1,0\n1,01/02/2026,2,1\n2,02/02/2026,1,0\n"
    with open("bad.csv", "w") as file:
        file.write(bad)
    code, out, err = run("train", "bad.csv", "--query", "q", "--grade", "g", "--event-time", "t", "--dry-run")
    assert code == 2
    assert "3 rows" in out
    assert "no list can be read: all 2 have a fault" in err
    with open("run.txt", "w") as file:
        file.write("q Q0 a 1 2 t\n")
    with open("qrels.txt", "w") as file:
        file.write("r 0 a 1\n")
    code, _, err = run("evaluate", "run.txt", "qrels.txt", "--trec", "--dry-run")
    assert code == 2
    assert "no query is in all files" in err


def test_grades_of_a_log_without_enough_clicks_fail(run, tmp_path):
    with open("clicks.csv", "w") as file:
        file.write("query,document,position,click,topic\n" + "".join(f"1,d{i},{i},{int(i == 3)},t\n" for i in range(1, 21)))
    code, _, err = run("grades", "clicks.csv", "--topic", "topic", "--examination", "none", "--out", "out.csv")
    assert code == 2
    assert "clicks.csv: no pair of a query and a document can be judged" in err
    assert not (tmp_path / "out.csv").exists()
