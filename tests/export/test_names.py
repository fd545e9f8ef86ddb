"""Two features never become one in a file for another program: it tells them apart, or `export` refuses and names both."""

import ast
import json
import re
import sqlite3

import numpy as np
import pytest

from online_rank import PerceptronRanker, RunFeatures
from online_rank.export import TARGETS, export
from online_rank.export.painless import to_painless
from online_rank.rankers.click_trees import ClickTrees

#: Names that a program might take for one.
PAIRS = [
    ("unit price", "unit_price"),
    ("price", "price "),
    ("price", "Price"),
    ("age", "attribute(age)"),
    ("bm25(title)", "bm25( title )"),
    ("a?b", "a\\077b"),
    ('a"b', "a'b"),
    ("x1", "x2"),
    ("found1", "b"),
    ("query", "score"),
    ("text", "text unit"),
    ("n" * 63 + "1", "n" * 63 + "2"),
    (("a", "b"), "('a', 'b')"),
]


def _vespa(text):
    return re.findall(r"isNan\((attribute\(\w+\))\)|\* ([a-z]\w*\(.*\))$", text, re.MULTILINE)


#: The names of features in a file.
NAMES = {
    "c": lambda text: [
        ast.literal_eval(f"b{each.strip()}")
        for each in re.search(r"_features\[2\] = \{(.*?)\};", text, re.DOTALL)[1].split(",\n")
    ],
    "elasticsearch": lambda text: json.loads(next(iter(json.loads(text).values()))["model"]["model"]["definition"]),
    "json": lambda text: json.loads(text)["features"],
    "lightgbm": lambda text: re.search("feature_names=(.*)", text)[1].split(" "),
    "solr": lambda text: json.loads(text)["params"]["weights"],
    "vespa": _vespa,
    "xgboost": lambda text: json.loads(text)["learner"]["feature_names"],
    # Of fused runs.
    "elasticsearch-linear": lambda text: [x["retriever"] for x in json.loads(text)["retriever"]["linear"]["retrievers"]],
    "elasticsearch-rrf": lambda text: [x["retriever"] for x in json.loads(text)["retriever"]["rrf"]["retrievers"]],
    "langchain": lambda text: json.loads(text)["retrievers"],
    "opensearch-pipeline": lambda text: re.findall(r"0\.\d+", text),  # By position.
    "solr-function": lambda text: re.findall(r"\$(.*?),", text),
    "vespa-global": lambda text: re.findall(r"normalize_linear\((.*)\)", text),
}
NAMES |= {"opensearch": NAMES["elasticsearch"]}


def _exported(to, names):
    if "fusion" in TARGETS[to].kinds:
        rule = "rrf" if to in ("elasticsearch-rrf", "langchain") else "minmax"
        floor = 0.001 if to == "opensearch-pipeline" else 0.0
        return export(
            RunFeatures(list(names), floor=floor) | PerceptronRanker.from_rule(rule, list(names), weights=[1.0, 2.0]), to
        )
    if "linear" in TARGETS[to].kinds:
        return export(PerceptronRanker.from_weights(dict(zip(names, (1.0, 2.0), strict=True))), to)
    model = ClickTrees()
    model.learn_one([dict(zip(names, row, strict=True)) for row in np.eye(2).tolist()], [0, 1])
    return export(model, to)


def _refused(to, names):
    """The error of an export, or None."""
    try:
        _exported(to, names)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "to", [to for to in TARGETS if to not in ("onnx", "sql", "painless", "duckdb", "duckdb-tables", "postgresql")]
)
def test_names_stay_apart(to):
    for names in PAIRS:
        if "fusion" in TARGETS[to].kinds and not isinstance(names[0], str):
            continue  # Runs are called by texts.
        refused = _refused(to, names)
        if refused is None:
            assert len(set(NAMES[to](_exported(to, names)))) == 2, names
        else:
            assert any(repr(name) in refused for name in names), names


def test_lightgbm_refuses_names_that_differ_in_white_space():
    with pytest.raises(
        ValueError, match="two features would be called 'unit_price', 'unit price' and 'unit_price'; give other"
    ):
        _exported("lightgbm", ("unit price", "unit_price"))


@pytest.mark.parametrize("names", [("age", "attribute(age)"), ("bm25(title)", "bm25( title )")])
def test_vespa_refuses_spellings_of_one_rank_feature(names):
    with pytest.raises(ValueError, match=f"{re.escape(repr(names[0]))} and {re.escape(repr(names[1]))}"):
        _exported("vespa", names)


def test_onnx_keeps_names_apart():
    import onnx

    made = onnx.load_from_string(_exported("onnx", ("unit price", "unit_price")))
    assert json.loads(made.metadata_props[0].value) == ["unit price", "unit_price"]


def test_scripts_keep_names_apart():
    with pytest.raises(ValueError, match="'unit price' is not the name of a field"):
        to_painless(PerceptronRanker.from_weights({"unit price": 1.0, "unit_price": 2.0}))


@pytest.mark.parametrize("names", PAIRS[:-1])
def test_columns_of_candidates_stay_apart(names):
    import duckdb

    refused = _refused("duckdb", names)
    if refused is not None:
        assert "would be called" in refused
        return
    columns = ['"' + name.replace('"', '""') + '"' for name in names]
    data = duckdb.connect()
    data.execute(f'CREATE TABLE online_rank ("query" INT, {columns[0]} DOUBLE, {columns[1]} DOUBLE)')
    data.execute("INSERT INTO online_rank VALUES (1, 5.0, 0.0), (1, 0.0, 9.0)")
    assert [row[1:3] for row in data.execute(_exported("duckdb", names)).fetchall()] == [(0.0, 9.0), (5.0, 0.0)]


def test_columns_of_sql_stay_apart():
    """SQLite and DuckDB ignore capitals, PostgreSQL cuts names at 63 bytes, and a result has further columns."""
    for names in PAIRS[:-1]:
        refused = _refused("sql", names)
        if refused is not None:
            assert "would be called" in refused, names
            continue
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        data = sqlite3.connect(":memory:")
        data.execute(f'CREATE TABLE online_rank ("query", {quoted[0]}, {quoted[1]})')
        data.executemany("INSERT INTO online_rank VALUES (?, ?, ?)", [(1, 5.0, 0.0), (1, 0.0, 9.0)])
        assert [row[1:3] for row in data.execute(_exported("sql", names))] == [(0.0, 9.0), (5.0, 0.0)]


def test_a_result_of_sql_has_places_and_the_numbers_of_rows():
    """`row_number` was the number of the row, and was taken for the place."""
    data = sqlite3.connect(":memory:")
    data.execute('CREATE TABLE online_rank ("query", "clicks")')
    data.executemany("INSERT INTO online_rank VALUES (?, ?)", [(1, 2.0), (2, 1.0), (1, 7.0), (1, 2.0), (2, 3.0)])
    found = data.execute(export(PerceptronRanker.from_weights({"clicks": 2.0}), "postgresql"))
    assert [column[0] for column in found.description] == ["query", "clicks", "input_row", "score", "place"]
    assert found.fetchall() == [
        (1, 7.0, 3, 14.0, 1), (1, 2.0, 1, 4.0, 2), (1, 2.0, 4, 4.0, 3), (2, 3.0, 5, 6.0, 1), (2, 1.0, 2, 2.0, 2),
    ]  # fmt: skip
    for name in ("place", "input_row", "score"):
        with pytest.raises(ValueError, match="two features would be called"):
            export(PerceptronRanker.from_weights({"clicks": 2.0}), "postgresql", names={"clicks": name})


@pytest.mark.parametrize(
    "names",
    [("price", "Price"), ("query", "b"), ("score", "b"), ("n" * 63 + "1", "n" * 63 + "2")],
)
def test_columns_that_a_database_takes_for_one_are_refused(names):
    with pytest.raises(ValueError, match="two features would be called"):
        _exported("sql", names)
