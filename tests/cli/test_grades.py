"""`online-rank grades`: judgements from logs."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from online_rank.feedback import Impression, judgements
from tests.helpers import run_command


def log_of(n=900):
    """Lists of 4 of 6 documents for 10 texts, by two rankers in turn; users look at position p with 1 / p."""
    rng, rows = np.random.default_rng(3), []
    for t in range(n):
        text = int(rng.integers(10))
        quality = np.random.default_rng([text, 7]).random(6)
        order = np.argsort(-quality - 0.7 * np.random.default_rng([text, t % 2]).normal(size=6))[:4]
        for place, d in enumerate(order.tolist(), start=1):
            clicked = rng.random() < quality[d] / place
            rows.append((f"r{t}", f"d{d}", place, int(clicked), f"text {text}", f"s{t // 3}", f"u{t % 100}"))
    return pd.DataFrame(rows, columns=["query", "document", "position", "click", "text", "session", "who"])


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    log_of().to_csv(path, index=False)
    return path


def lists_of(frame):
    for _, rows in frame.groupby("query", sort=False):
        clicks = Impression(rows.document).clicked(dict(zip(rows.document, rows.click.astype(float), strict=True)))
        yield rows.text.iloc[0], clicks, {"session": rows.session.iloc[0], "who": rows.who.iloc[0]}


@pytest.mark.slow
def test_the_table_has_what_the_function_returns(log, tmp_path, capsys):
    out = tmp_path / "judgements.csv"
    caps = ("--per-session", 2, "--per-user", "who=5")
    code, printed, err = run_command(capsys, "grades", log, "--topic", "text", "--out", out, *caps)
    assert (code, err) == (0, "")
    made = judgements(lists_of(log_of()), caps={"session": 2, "who": 5})
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = {(j.query, j.document): j for j in made.judged}
    assert len(rows) == len(expected) > 30
    for row in rows:
        j = expected[row["query"], row["document"]]
        assert [float(row[name]) for name in j._fields[2:]] == list(j[2:])
    assert [row["query"] for row in rows] == sorted(row["query"] for row in rows)
    assert f"{made.lists:,} lists counted" in printed
    assert f"left out: {made.capped['session']:,} lists beyond the cap on 'session'" in printed
    code, printed, _ = run_command(capsys, "grades", log, "--topic", "text", "--out", tmp_path / "j.parquet", *caps, "--json")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "j.parquet"), pd.read_csv(out), check_dtype=False)
    report = json.loads(printed)
    assert (report["capped"], report["scarce"], report["judged"]) == (made.capped, made.scarce, len(rows))
    assert (sum(report["grades"]), report["uncapped"]) == (len(rows), {"session": 0, "who": 0})
    assert report["examination"] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4], abs=0.12)


def test_a_table_of_another_format_is_refused_before_the_log_is_read(log, tmp_path, capsys):
    code, _, err = run_command(capsys, "grades", log, "--topic", "text", "--out", tmp_path / "j.xlsx")
    assert (code, err) == (2, f"online-rank: --out {tmp_path / 'j.xlsx'}: give a name that ends in .csv or .parquet\n")
    assert not (tmp_path / "j.xlsx").exists()


def test_a_dry_run_shows_the_columns_and_needs_no_file_to_write_to(log, capsys, tmp_path):
    code, printed, _ = run_command(capsys, "grades", log, "--topic", "text", "--dry-run", "--json")
    assert {column["name"]: column["role"] for column in json.loads(printed)["columns"]}["position"] == "position"
    assert code == 0
    code, _, err = run_command(capsys, "grades", log, "--topic", "text")
    assert (code, err) == (2, "online-rank: --out FILE: give a name that ends in .csv or .parquet\n")
    code, _, err = run_command(capsys, "grades", log, "--topic", "text", "--out", tmp_path / "no" / "j.csv")
    assert (code, err) == (2, f"online-rank: --out {tmp_path / 'no' / 'j.csv'}: there is no directory {tmp_path / 'no'}\n")


def test_the_examination_of_a_file(log, tmp_path, capsys):
    (tmp_path / "looked").write_text("1 0.5 0.33")
    given = ("--topic", "text", "--out", tmp_path / "j.csv", "--examination", tmp_path / "looked", "--json")
    code, printed, _ = run_command(capsys, "grades", log, *given)
    report = json.loads(printed)
    # The fourth position of each list is not known.
    assert (code, report["examination"], report["deep"]) == (0, [1.0, 0.5, 0.33], report["lists"])


def ubi(folder):
    """The log as UBI: queries and events, in no order."""
    frame, records = log_of(), []
    for q, rows in frame.groupby("query", sort=False):
        about = {
            "query_id": q,
            "client_id": rows.who.iloc[0],
            "timestamp": f"2025-01-01T{int(q[1:]) // 60:02d}:{int(q[1:]) % 60:02d}:00Z",
        }
        records.append({**about, "user_query": rows.text.iloc[0]})
        for row in rows.itertuples():
            place = {"object": {"object_id": row.document, "price": 3.0}, "position": {"ordinal": row.position}}
            event = {**about, "session_id": row.session, "event_attributes": place}
            records += [{**event, "action_name": kind} for kind in ("impression", *["click", "click"] * row.click)]
    np.random.default_rng(0).shuffle(records)
    (folder / "ubi.ndjson").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder / "ubi.ndjson"


@pytest.mark.slow
def test_ubi_is_judged_as_its_table_is(log, tmp_path, capsys):
    made = [tmp_path / "ubi.csv", tmp_path / "table.csv"]
    assert run_command(capsys, "grades", ubi(tmp_path), "--out", made[0], "--per-session", 2)[0] == 0
    assert run_command(capsys, "grades", log, "--topic", "text", "--out", made[1], "--per-session", 2)[0] == 0
    assert made[0].read_text() == made[1].read_text()


@pytest.mark.slow
def test_ubi_trains_and_compares(tmp_path, capsys):
    log, model = ubi(tmp_path), tmp_path / "m.npz"
    code, printed, err = run_command(capsys, "train", log, "--clicks", "moved", "--save", model, "--json")
    assert code == 0, err
    assert "1 features: object.price" in err
    report = json.loads(printed)
    assert (report["lists"], report["documents"]) == (900, 3600)
    assert report["examination"] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4], abs=0.12)
    code, _, err = run_command(capsys, "compare", model, tmp_path / "m.npz", log, "--clicks", "moved")
    assert (code, "lists that were not random" in err) == (2, True)


@pytest.mark.slow
def test_events_without_queries_have_no_texts(tmp_path, capsys):
    path = ubi(tmp_path)
    path.write_text("".join(line for line in path.open() if "user_query" not in line))
    # Grades are made of the same text and document in many lists; positions are learned from any lists.
    for command, wanted in ((("grades", "--out", tmp_path / "j.csv"), 2), (("train", "--clicks", "moved"), 0)):
        code, _, err = run_command(capsys, *command, path)
        assert (code, "none of 900 lists has a text in column 'user_query'" in " ".join(err.split())) == (wanted, True)


def test_lists_without_a_user_are_counted_where_users_are_capped(tmp_path, capsys):
    log = log_of()
    log.loc[log["session"].str[-1] < "5", "who"] = None
    log.to_csv(tmp_path / "log.csv", index=False)
    options = ("grades", tmp_path / "log.csv", "--topic", "text", "--per-user", "who=9", "--out", tmp_path / "j.csv")
    assert "not capped: 450 lists without a value of 'who'" in run_command(capsys, *options)[1]
    assert json.loads(run_command(capsys, *options, "--json")[1])["uncapped"] == {"who": 450}


@pytest.mark.slow
def test_lists_without_a_text_say_nothing_about_positions(tmp_path, capsys):
    log = log_of()
    log.loc[log["session"].str[-1] < "5", "text"] = None
    log.assign(x=1.0).to_csv(tmp_path / "log.csv", index=False)
    options, found = (tmp_path / "log.csv", "--topic", "text", "--json"), []
    for command in (("grades", "--out", tmp_path / "j.csv"), ("train", "--clicks", "moved", "--exclude", "session,who")):
        code, printed, err = run_command(capsys, *command, *options)
        assert code == 0, err
        found.append(json.loads(printed))
    assert found[0]["without_topic"] == 450
    # One by documents that moved, the other learned with the features.
    assert found[1]["examination"] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4], abs=0.12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--topic COLUMN names the text of the query"),
        (["--topic", "no"], "no column 'no'"),
        (["--topic", "text", "--per-user", 3], "no column 'user'"),
        (["--topic", "text", "--per-user", "who=0"], "--per-user is 'who=0'; it is a number of lists from 1 on, or COLUMN=N"),
        (["--topic", "text", "--per-session", "many"], "--per-session is 'many'"),
        (["--topic", "text", "--feedback-window", "30m"], "window needs the column of times, event_time= (--event-time)"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message, log, tmp_path, capsys):
    code, out, err = run_command(capsys, "grades", log, "--out", tmp_path / "j.csv", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "j.csv").exists()


ROWS = """list,document,position,click,text,brand,price,user
1,a,1,1,x,acme,1,u
1,b,2,0,x,best,2,u
2,b,1,0,x,best,,v
2,a,2,1,x,acme,4,v
3,a,1,0,y,acme,5,u
3,b,2,1,y,best,6,u
4,b,1,0,y,best,7,u
4,a,2,0,y,acme,8,u
"""


@pytest.fixture
def priced(tmp_path):
    """A log with features, how often its two positions are looked at, and the options for both."""
    (tmp_path / "log.csv").write_text(ROWS)
    (tmp_path / "theta").write_text("1 0.5")
    return (tmp_path / "log.csv", "--topic", "text", "--query", "list", "--examination", tmp_path / "theta")


def table_of(capsys, tmp_path, *arguments):
    out = tmp_path / "table.csv"
    code, _, err = run_command(capsys, "grades", *arguments, "--out", out)
    assert code == 0, err
    with out.open(newline="") as file:
        return {(row.pop("query"), row.pop("document")): row for row in csv.DictReader(file)}


def test_features_of_the_last_row_are_joined_and_no_figures_of_clicks(priced, tmp_path, capsys):
    rows = table_of(capsys, tmp_path, *priced, "--features", "last", "--exclude", "user")
    assert {pair: (row["price"], row["brand"]) for pair, row in rows.items()} == {
        ("x", "a"): ("4.0", "acme"), ("x", "b"): ("", "best"), ("y", "a"): ("8.0", "acme"), ("y", "b"): ("7.0", "best"),
    }  # fmt: skip
    assert set(rows["x", "a"]) == {"grade", "price", "brand"}


def test_a_history_is_as_it_was_before_the_clicks_that_a_grade_counts(priced, tmp_path, capsys):
    rows = table_of(capsys, tmp_path, *priced, "--history", "document=1e9")
    shown, rate = "document 1000000000.0 impressions", "document 1000000000.0 rate"
    # For text x both documents are new; for y, a was looked at 1 + .5 times and clicked twice, b .5 + 1 times.
    assert [float(rows[pair][shown]) for pair in (("x", "a"), ("x", "b"))] == [0.0, 0.0]
    assert [float(rows["y", d][shown]) for d in "ab"] == pytest.approx([1.5, 1.5])
    overall = 2 / 3
    assert [float(rows["y", d][rate]) for d in "ab"] == pytest.approx([(g + 20 * overall) / 21.5 for g in (2, 0)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--history", "document"), "--history needs the time of each query"),
        (("--history", "document=0"), "--history document=0: half_life is 0.0"),
    ],
)
def test_a_history_that_cannot_be_counted_is_refused(arguments, message, priced, tmp_path, capsys):
    code, _, err = run_command(capsys, "grades", *priced, "--out", tmp_path / "t.csv", *arguments)
    assert code == 2
    assert message in err


def test_a_log_without_movement_names_the_better_door(log, tmp_path, capsys):
    alone = log_of(100).assign(document=lambda rows: rows["query"] + rows.document)
    alone.to_csv(tmp_path / "log.csv", index=False)
    code, _, err = run_command(capsys, "grades", tmp_path / "log.csv", "--topic", "text", "--out", tmp_path / "j.csv")
    assert code == 2
    assert "does not determine" in err
    assert "train --clicks moved learns from lists, and needs no pair twice" in err


def test_a_feature_called_as_a_column_of_the_table_is_refused(priced, tmp_path, capsys):
    (tmp_path / "log.csv").write_text(ROWS.replace("price", "query"))
    code, _, err = run_command(capsys, "grades", *priced, "--out", tmp_path / "t.csv", "--features", "last")
    assert code == 2
    assert "the column 'query' would be a feature" in err
