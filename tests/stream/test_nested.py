"""JSON lines with a list of hits and a list of clicks."""

import json

import pytest

from online_rank import load
from online_rank.stream import ReadError, read_clicks
from online_rank.stream.nested import NestedLog
from tests.helpers import run_command

LINES = [
    {"request_id": "r1", "text": "tea", "hits": [{"sku": "a", "price": 2.0}, {"sku": "b", "price": 3.0}], "bought": ["b"]},
    {"request_id": "r2", "text": "tea", "hits": [{"sku": "b", "price": 3.0}, {"sku": "c"}], "bought": []},
]


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_hits_are_rows_in_their_order(tmp_path):
    log = NestedLog([written(tmp_path / "log.jsonl", LINES)], "hits", "bought")
    assert log.to_arrow().to_pylist() == [
        {"query": q, "text": "tea", "price": price, "document": d, "position": p, "click": c}
        for q, d, p, c, price in (
            ("r1", "a", 1, 0.0, 2.0),
            ("r1", "b", 2, 1.0, 3.0),
            ("r2", "b", 1, 0.0, 3.0),
            ("r2", "c", 2, 0.0, None),
        )
    ]
    assert log.place(3).endswith("line 2")
    found = list(read_clicks(log, exclude=["text"]))
    assert [clicks.gains for _, clicks in found] == [(0.0, 1.0), (0.0, 0.0)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"hits": [{"price": 1.0}], "bought": []}, "hit 1 has no id: it has 'price'"),
        ({"hits": [True], "bought": []}, "hit 1 is of type bool"),
        ({"hits": ["a"], "bought": ["z"]}, "bought has 'z', which is not among hits"),
        ({"hits": "a", "bought": []}, "hits is of type str; it is a list"),
        ({"answer": {"hits": ["a"]}, "bought": ["a"]}, "no field 'hits'; there are 'answer', 'bought'"),
    ],
)
def test_a_malformed_list_is_named_by_its_line(line, message, tmp_path):
    file = written(tmp_path / "log.jsonl", [*LINES, line])
    with pytest.raises(ReadError, match=f"line 3: {message}"):
        NestedLog([file], "hits", "bought")


def test_all_fields_that_no_list_has_are_named_at_once(tmp_path):
    with pytest.raises(ReadError, match=r"no list has the field 'shown' and 'clicks'; there are 'bought', 'hits'"):
        NestedLog([written(tmp_path / "log.jsonl", LINES)], "shown", "clicks")


@pytest.mark.parametrize("named", [None, "place"])
def test_hits_with_positions_stand_there(named, tmp_path):
    """The second page begins at position 3; a hit counted by its place in the list."""
    field = named or "rank"
    lines = [
        {"hits": [{"id": "b", field: 4, "query": "tea"}, {"id": "a", field: 3}, {"id": "c", field: None}], "bought": ["a"]}
    ]
    log = NestedLog([written(tmp_path / "log.jsonl", lines)], "hits", "bought", position=named)
    ((_, clicks),) = read_clicks(log, features=[])
    assert (clicks.impression.order, clicks.impression.positions, clicks.gains) == (("a", "b"), (3, 4), (1.0, 0.0))
    with pytest.raises(ReadError, match="line 1: hit 1 has no field 'at'; there are "):
        NestedLog([str(tmp_path / "log.jsonl")], "hits", "bought", position="at")


def test_a_name_that_is_no_number_is_no_position(tmp_path):
    lines = [{"hits": [{"id": "a", "place": "Ulm"}, {"id": "b", "place": "Graz"}], "bought": []}]
    rows = NestedLog([written(tmp_path / "log.jsonl", lines)], "hits", "bought").to_arrow().to_pylist()
    assert [(row["position"], row["place"]) for row in rows] == [(1, "Ulm"), (2, "Graz")]


def test_the_fields_of_ids_may_be_named(tmp_path, capsys):
    """--query and --document were refused: there was no such column."""
    lines = [
        {"call": f"c{t}", "hits": [{"job": "x", "key": d, "x": d} for d in range(3)], "bought": [t % 2]} for t in range(40)
    ]
    file = written(tmp_path / "log.jsonl", lines)
    given = (file, "--clicks", "moved", "--hits", "hits", "--clicked", "bought", "--query", "call")
    code, out, err = run_command(capsys, "train", *given, "--document", "key", "--dry-run", "--json")
    assert code == 0, err
    assert {one["name"]: one["role"] for one in json.loads(out)["columns"]}["query"] == "query"
    code, _, err = run_command(capsys, "train", *given, "--document", "sku")
    assert (code, "hit 1 has no id: it has 'job', 'key', 'x'" in err) == (2, True)
    code, _, err = run_command(capsys, "train", *given, "--event", "click=1")
    assert (code, "--event is for logs of rows" in err) == (2, True)


@pytest.mark.slow
def test_a_nested_log_trains(tmp_path, capsys):
    lines = [
        {"text": f"t{t}", "hits": [{"id": f"{t}/{d}", "x": float((d + t) % 3)} for d in range(3)], "ids": [f"{t}/{t % 3}"]}
        for t in range(300)
    ]
    file, model = written(tmp_path / "log.jsonl", lines), str(tmp_path / "m")
    options = ("--clicks", "moved", "--topic", "text", "--hits", "hits", "--clicked", "ids", "--save", model, "--json")
    code, out, err = run_command(capsys, "train", file, *options)
    assert code == 0, err
    assert json.loads(out)["clicked"] == 300
    assert load(model).rank_one({"a": {"x": 0.0}, "b": {"x": 2.0}})
    code, _, err = run_command(capsys, "train", file, "--clicks", "moved", "--hits", "hits")
    assert code == 2
    assert "--hits and --clicked go together" in err
