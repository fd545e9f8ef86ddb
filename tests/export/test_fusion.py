"""Learned fusion for engines: equal to oracles of their documented formulas, or the nearest, with the changed rankings."""

import json
import sqlite3
from itertools import combinations

import numpy as np
import pytest

import online_rank
from online_rank import GradientRanker, PerceptronRanker, RunFeatures, Runs, StreamScaler, hybrid
from online_rank.cli import main
from online_rank.export import TARGETS, export, fusion_weights
from online_rank.export.fusion import _nonnegative
from online_rank.preprocessing.runs import PARTS
from tests.reference import fusion, postgresql

RUNS = ["r0", "r1", "r2"]
FUSION = [name for name, target in TARGETS.items() if "fusion" in target.kinds]


def queries(n, seed=0, distinct=True, positive=False):
    """Queries of three lists, none of them of equal scores alone."""
    rng, made = np.random.default_rng(seed), []
    while len(made) < n:
        lists, _ = fusion.random_lists(rng, distinct=distinct)
        lists = {run: lists.get(run, []) for run in RUNS}
        if positive:
            lists = {run: [(d, float(np.exp(s))) for d, s in entries] for run, entries in lists.items()}
        if all(len({s for _, s in entries}) > 1 for entries in lists.values()):
            made.append(lists)
    return made


def begun(rule, weights, **options):
    return RunFeatures(RUNS, **options) | PerceptronRanker.from_rule(rule, RUNS, weights=weights)


def engine_order(to, text, lists):
    """What an engine ranks by an exported file."""
    if to == "elasticsearch-linear":
        each = json.loads(text)["retriever"]["linear"]["retrievers"]
        assert [x["normalizer"] for x in each] == ["minmax"] * len(each)
        ordered = {x["retriever"]: lists[x["retriever"]] for x in each}
        return fusion.elasticsearch_linear(ordered, [x["weight"] for x in each])
    if to == "elasticsearch-rrf":
        body = json.loads(text)["retriever"]["rrf"]
        ordered = {x["retriever"]: lists[x["retriever"]] for x in body["retrievers"]}
        return fusion.elasticsearch_rrf(ordered, [x["weight"] for x in body["retrievers"]], body["rank_constant"])
    if to == "langchain":
        body = json.loads(text)
        return fusion.langchain({run: lists[run] for run in body["retrievers"]}, body["weights"], body["c"])
    if to == "opensearch-pipeline":
        (pipeline,) = json.loads(text).values()
        (processor,) = (x["normalization-processor"] for x in pipeline["phase_results_processors"])
        assert processor["normalization"] == {"technique": "min_max"}
        weights = processor["combination"]["parameters"]["weights"]
        assert min(weights) >= 0.0
        assert sum(weights) == pytest.approx(1.0, abs=1e-12)
        return fusion.opensearch(lists, weights)
    if to == "solr-function":
        return fusion.solr_function(lists, text, {})
    if to == "vespa-global":
        return fusion.vespa_global(lists, text, {run: run for run in RUNS})
    return sql_order(sqlite3.connect(":memory:"), text, lists)


def sql_order(database, text, lists):
    """The documents as SQL ranks them; equal scores in the order of appearance."""
    scores = sql_scores(database, text, lists)
    return sorted(scores, key=lambda d: -round(scores[d], 12))


def sql_scores(database, text, lists, features=None):
    """The scores that SQL gives the documents, in the order of appearance."""
    order = fusion.appeared(lists)
    own = {run: dict(entries) for run, entries in lists.items()}
    columns = ", ".join(f"{name} DOUBLE PRECISION" for name in (*RUNS, "price"))
    database.execute(f'CREATE TABLE online_rank ("query" INT, doc INT, {columns})')
    rows = [(1, d, *(own[run].get(d) for run in RUNS), (features or {}).get(d)) for d in order]
    # Another query in the same table changes nothing.
    rows += [(2, -1, 5.0, -70.0, 3.0, 1.0), (2, -2, None, 2.0, None, None)]
    database.executemany("INSERT INTO online_rank VALUES (?, ?, ?, ?, ?, ?)", rows)
    found = database.execute(f'SELECT doc, score FROM ({text}) AS fused WHERE "query" = 1').fetchall()
    scores = dict(found)
    return {d: scores[d] for d in order}


EXACT = {
    "elasticsearch-linear": ("minmax", {}),
    "elasticsearch-rrf": ("rrf", {"k": 20}),
    "langchain": ("rrf", {"k": 7.5}),
    "opensearch-pipeline": ("minmax", {"floor": 0.001}),
    "sql": ("rrf", {"k": 7.3}),
}


@pytest.mark.first(2)
@pytest.mark.parametrize("to", EXACT)
@pytest.mark.parametrize("weights", [[1.0, 2.0, 0.5], [0.3, 0.0, 0.7]])
def test_an_engine_that_carries_the_model_ranks_as_it_does(to, weights):
    rule, options = EXACT[to]
    model = begun(rule, weights, **options)
    text = export(model, to)
    for lists in queries(40):
        assert engine_order(to, text, lists) == model.rank_one(Runs(lists))
    found = fusion_weights(model, to, queries=[Runs(lists) for lists in queries(40)])
    assert (found.why_fitted, found.changed, found.changed_first) == (None, 0.0, 0.0)


@pytest.mark.first(1)
@pytest.mark.parametrize("to", FUSION)
def test_the_nearest_is_fitted_and_its_changed_rankings_are_counted(to):
    rng, model = np.random.default_rng(3), hybrid(RUNS, today="rrf")
    lists = queries(30, seed=4, positive=True)
    for query in lists:
        asked = Runs(query)
        model.learn_one(asked, {d: int(rng.integers(3)) for d in asked.ids})
    given = [Runs(query) for query in lists]
    found = fusion_weights(model, to, queries=given)
    assert found.why_fitted == "its scores are not a weighted sum of features of runs"
    text = export(model, to, queries=given)
    pairs = [(engine_order(to, text, query), model.rank_one(Runs(query))) for query in lists]
    assert found.changed == np.mean([theirs != ours for theirs, ours in pairs])
    assert found.changed_first == np.mean([theirs[:10] != ours[:10] for theirs, ours in pairs])
    with pytest.raises(TypeError, match=r"not a weighted sum of features of runs\. Give queries \(in the shell: --run FILE\)"):
        export(model, to)


def test_the_nearest_to_what_an_engine_can_carry_is_that():
    model = RunFeatures(RUNS, parts=("minmax",)) | GradientRanker.from_weights(
        {"r0 minmax": -1.0, "r1 minmax": 2.0, "r2 minmax": 1.0}, optimizer="sgd"
    )
    given = [Runs(lists) for lists in queries(60)]
    nearest = fusion_weights(model, "elasticsearch-linear", queries=given)
    assert nearest.why_fitted == "it has negative weights"
    assert nearest.weights["minmax"][0] == 0.0
    assert 0.0 < nearest.changed_first <= nearest.changed <= 1.0
    # A blend that has learned nothing ranks as its rule, whose weights are found.
    begun = fusion_weights(hybrid(RUNS, today="minmax", weights=[1.0, 2.0, 3.0]), "elasticsearch-linear", queries=given)
    assert begun.changed == 0.0
    assert begun.weights["minmax"] == pytest.approx([1 / 3, 2 / 3, 1], abs=1e-9)


def test_nonnegative_least_squares_by_trying_all_sets():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A, b = rng.normal(size=(12, 4)), rng.normal(size=12)
        distances = [float(b @ b)]
        for chosen in (list(c) for r in range(1, 5) for c in combinations(range(4), r)):
            w = np.linalg.lstsq(A[:, chosen], b)[0]
            if w.min() >= 0.0:
                distances.append(float(np.sum((A[:, chosen] @ w - b) ** 2)))
        w = _nonnegative(A.T @ A, A.T @ b)
        assert w.min() >= 0.0
        assert float(np.sum((A @ w - b) ** 2)) == pytest.approx(min(distances), abs=1e-9)


@pytest.fixture(scope="module")
def postgresql_server():
    if postgresql.programs() is None:
        pytest.skip("no PostgreSQL here")
    with postgresql.server() as empty:
        yield empty


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def database(request):
    """A function that gives an empty database of each kind."""
    if request.param == "sqlite":
        return lambda: sqlite3.connect(":memory:")
    if request.param == "duckdb":
        return pytest.importorskip("duckdb").connect
    return request.getfixturevalue("postgresql_server")


#: One document, equal scores, a run of none, and scores whose squares are too large for the difference of means.
PECULIAR = [
    {"r0": [(1, 7.0)], "r1": [(1, -0.3)], "r2": [(1, 0.0)]},
    {"r0": [(1, 0.1), (2, 0.1), (3, 0.1)], "r1": [(4, 2.0), (1, 2.0), (2, -1.0)], "r2": []},
    {"r0": [(1, 1.7e9 + 3), (2, 1.7e9 + 1), (3, 1.7e9)], "r1": [(5, 1e-9), (4, -1e-9)], "r2": [(4, 1e9), (2, 1.0), (6, 1.0)]},
]


@pytest.mark.first(1)
def test_sql_adds_all_parts_and_features(database):
    weights = {"r0 minmax": 1.0, "r1 reciprocal_rank": 40.0, "r2 found": -0.25, "r1 minmax": 0.5, "price": 0.125}
    weights |= {"r0 zscore": 0.75, "r1 zscore": -0.375, "r2 zscore": 0.5}
    model = RunFeatures(RUNS, parts=PARTS, floor=0.05) | PerceptronRanker.from_weights(weights)
    text = export(model, "sql", names={"price": "price"})
    for seed, lists in enumerate([*PECULIAR, *queries(20, distinct=False)]):
        rng = np.random.default_rng(seed)
        features = {d: float(rng.normal()) for d in fusion.appeared(lists)[::2]}
        # Without lists, equal scores share the mean of their ranks, as in SQL.
        documents = {d: {} for d in fusion.appeared(lists)}
        for run, entries in lists.items():
            for d, score in entries:
                documents[d][run] = score
        for d, price in features.items():
            documents[d]["price"] = price
        # Reciprocal ranks are rounded to multiples of 2^-44 in the model, and have a weight of 40.
        scores = pytest.approx(model.predict_one(documents), rel=0.0, abs=3e-12)
        assert sql_scores(database(), text, lists, features) == scores


@pytest.mark.slow
def test_sql_divides_integers_as_numbers(database):
    table = database()
    table.execute('CREATE TABLE "it\'s" ("query" INT, doc INT, "the ""a""" INT)')
    table.executemany('INSERT INTO "it\'s" VALUES (?, ?, ?)', [(1, 1, 4), (1, 2, 3), (1, 3, 1), (1, 4, None)])
    # The mean is 8/3, and the variance (16 + 1 + 25) / 27 = 14/9.
    z = [4 / 14**0.5, 1 / 14**0.5, -5 / 14**0.5, -5 / 14**0.5]
    for rule, expected in (("minmax", [1.0, 2 / 3, 0.0, 0.0]), ("zscore", z)):
        model = RunFeatures(["a"], parts=(rule,)) | PerceptronRanker.from_rule(rule, ["a"])
        text = export(model, "sql", name="it's", names={"a": 'the "a"'})
        rows = table.execute(f"SELECT doc, score FROM ({text}) AS fused").fetchall()
        assert dict(rows) == pytest.approx(dict(enumerate(expected, start=1)))


@pytest.mark.parametrize(
    ("to", "model", "error", "message"),
    [
        ("elasticsearch-rrf", begun("rrf", [1.0, 1.0, -1.0]), TypeError, "it has negative weights. Give queries"),
        ("elasticsearch-rrf", begun("rrf", None, k=0.5), TypeError, "its k is 0.5, and the target takes integers"),
        ("langchain", begun("minmax", None), TypeError, "it has weights on minmax, and the target adds up reciprocal_rank"),
        ("langchain", RunFeatures(["a"]) | PerceptronRanker.from_weights({"a found": 0.0}), ValueError, "all weights are 0"),
        (
            "opensearch-pipeline",
            RunFeatures(["a"]) | PerceptronRanker.from_weights({"a minmax": 1.0, "price": 1.0}),
            TypeError,
            "it has a weight on the feature 'price'",
        ),
        (
            "langchain",
            PerceptronRanker.from_weights({"a": 1.0}),
            TypeError,
            "does not begin with RunFeatures. Targets that can: c",
        ),
        ("solr", begun("rrf", None), TypeError, "RunFeatures makes features of the lists .*: elasticsearch-linear, elast"),
    ],
)
def test_what_cannot_be_exported_says_why(to, model, error, message):
    with pytest.raises(error, match=message):
        export(model, to)


def test_more_runs_than_a_hybrid_query_of_opensearch_has():
    runs = [f"r{i}" for i in range(6)]
    with pytest.raises(ValueError, match="at most 5 queries; the model has 6"):
        export(RunFeatures(runs) | PerceptronRanker.from_rule("minmax", runs), "opensearch-pipeline")


def test_queries_are_for_targets_that_fuse():
    with pytest.raises(ValueError, match="queries are for targets that fuse runs"):
        export(StreamScaler() | PerceptronRanker(), "json", queries=[])


def test_names_of_runs():
    model = RunFeatures(["text", "vec tor"]) | PerceptronRanker.from_rule("minmax", ["text", "vec tor"])
    with pytest.raises(ValueError, match="'vec tor' cannot be a request parameter"):
        export(model, "solr-function")
    assert "query($v,0)" in export(model, "solr-function", names={"vec tor": "v"})
    with pytest.raises(ValueError, match="'vec tor' cannot be the name of a feature of Vespa"):
        export(model, "vespa-global")
    assert "normalize_linear(closeness(field, v))" in export(model, "vespa-global", names={"vec tor": "closeness(field, v)"})
    knn = {"knn": {"field": "v"}}
    (_, second) = json.loads(export(model, "elasticsearch-linear", names={"vec tor": knn}))["retriever"]["linear"]["retrievers"]
    assert second["retriever"] == knn
    with pytest.raises(ValueError, match="the model has no run 'v'; there are text, vec tor"):
        export(model, "elasticsearch-linear", names={"v": knn})


def test_the_command_counts_changed_rankings(tmp_path, capfd):
    model = hybrid(["one", "two"], today="minmax")
    for name, factor in (("one", 7), ("two", 4)):
        lines = [f"q{q} Q0 d{d} 1 {(factor * d + q) % 11 + d / 7} t\n" for q in range(5) for d in range(8)]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    online_rank.save(model, tmp_path / "model.npz")
    files = [tmp_path / "one.run", "--run", tmp_path / "two.run"]
    with pytest.raises(SystemExit) as left:
        main(["export", str(tmp_path / "model.npz"), "--to", "elasticsearch-linear", "--run", *map(str, files)])
    out, err = capfd.readouterr()
    assert left.value.code == 0
    assert [x["retriever"] for x in json.loads(out)["retriever"]["linear"]["retrievers"]] == ["one", "two"]
    assert "cannot compute this model: its scores are not a weighted sum" in err
    assert "of 5 queries, 0.0% are ranked differently from the model, 0.0% in the first ten" in err
