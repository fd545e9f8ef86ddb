"""Each cell of the list of parts by target: the target computes the part as the model does, or gives the reason why not.

ONNX Runtime, DuckDB, PostgreSQL, LightGBM, XGBoost and a program of the C compiler are asked themselves; for search engines the
readers in `tests.reference.engines` answer, by the requests that the engines take.
"""

import functools
import importlib
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickBlendRanker,
    ClickPerceptron,
    CrossFeatures,
    DirectRanker,
    GradientRanker,
    HashedFeatures,
    History,
    KernelPerceptronRanker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    RunFeatures,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
    VectorFeatures,
    VectorRanker,
)
from online_rank.export import TARGETS, export, probes, query_inputs, solr_features, verify
from online_rank.export.cells import PARTS, as_table, cell
from online_rank.query import Runs
from online_rank.rankers.click_trees import ClickTrees
from tests.export import stub_engines
from tests.reference import engines, postgresql

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
LISTS = Runs({"text": {"a": 3.0, "b": 2.0, "c": 1.0}, "vector": {"c": 0.9, "a": 0.5, "d": 0.2}})
#: Models that have each part.
MODELS = {
    "weights": [
        lambda: StreamScaler() | PerceptronRanker(),
        lambda: MaxAbsStreamScaler() | GradientRanker(),
        lambda: BlendRanker([PerceptronRanker(), StreamScaler() | RidgeRanker()]),
        lambda: StreamScaler() | ClickPerceptron(),
        lambda: StreamScaler() | SwapRanker(),
    ],
    "trees": [
        lambda: StreamScaler() | ClickTrees(),
        lambda: BlendRanker([StreamScaler() | ClickTrees(), ClickTrees()]),
    ],
    "curves": [lambda: AdditiveRanker(relative=False, trees=20), lambda: ClickBlendRanker(relative=False)],
    "networks": [
        lambda: StreamScaler() | DirectRanker(hidden=(3,), dtype="float64"),
        lambda: BlendRanker([PerceptronRanker(), ClickTrees()]),
    ],
    "relative": [
        lambda: AdditiveRanker(trees=20),
        ClickBlendRanker,
        lambda: StreamQuantileMap() | PerceptronRanker(),
        lambda: QueryNormalizer() | RidgeRanker(),
        lambda: BlendRanker([QueryNormalizer() | PerceptronRanker(), StreamScaler() | RidgeRanker()]),
    ],
    "missing": [lambda: AdditiveRanker(relative=False, trees=20)],
    "categories": [lambda: AdditiveRanker(relative=False, trees=20)],
    "vectors": [
        lambda: AdditiveRanker(relative=False, trees=20),
        lambda: VectorFeatures() | PerceptronRanker(),
        VectorRanker,
    ],
    "context": [
        lambda: StreamScaler() | CrossFeatures("user", numbers="length") | PerceptronRanker(),
        lambda: CrossFeatures("user", numbers="length") | AdditiveRanker(relative=False, trees=20),
    ],
    "histories": [lambda: History("a", half_life=1000) | AdditiveRanker(relative=False, trees=0)],
    "words": [lambda: AdditiveRanker(relative=False, trees=0)],
    "lists": [lambda: RunFeatures() | PerceptronRanker.from_rule("minmax", ["text", "vector"])],
}
#: What a target that does not take a model says, beyond the reason of the cell.
MORE = {"relative": "sees one document at a time", "lists": "RunFeatures", "words": "kept by hashes"}


def query_of(part, rng, alone):
    """A query that has a part; `alone` gives it nothing else."""
    a, b = np.exp(rng.normal(size=(2, 6)))
    x, y, context = [{"a": float(p), "b": float(q)} for p, q in zip(a, b, strict=True)], np.digitize(a, [1.0, 2.0]), {}
    if part == "missing":
        x = [one if rng.random() < 0.8 else {"a": one["a"]} for one in x]
    if part == "categories":
        levels = rng.choice(["acme", "bolt's", "core"], 6)
        x, y = [one | {"brand": str(level)} for one, level in zip(x, levels, strict=True)], y + 2 * (levels == "acme")
    if part == "vectors":
        q, D = rng.normal(size=3), rng.normal(size=(6, 3))
        x = [({} if alone else one) | {"embedding": d.tolist()} for one, d in zip(x, D, strict=True)]
        y, context = y + (D @ q > 0.0), {"embedding": q.tolist()}
        # Some queries of a ranker of vectors have none, as of new users.
        context = {} if alone and rng.random() < 0.3 else context
    if part == "context":
        user = str(rng.choice(["ada", "bob"]))
        y, context = y if user == "ada" else np.digitize(b, [1.0, 2.0]), {"user": user, "length": float(rng.random())}
    if part == "words":
        texts = rng.choice(["red shoe of leather", "blue shoe", "green boot for rain", "old red boot"], 6)
        x = [one | {"title": f"{text} {rng.integers(1000)}"} for one, text in zip(x, texts, strict=True)]
        y = 2 * np.array([text.startswith("red") for text in texts])
    return x, y, context


@functools.cache
def taught(part, k):
    """A model of a part that has learned a few queries, from clicks if it takes no grades."""
    model, rng = MODELS[part][k](), np.random.default_rng(0)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(0 if part == "lists" else 80 if part in ("vectors", "words") else 40):
            x, y, context = query_of(part, rng, isinstance(model, VectorRanker))
            if model.abilities.draws and not isinstance(model, VectorRanker):
                shown = model.show_one(x)
                model.learn_one(x, shown.clicked([i for i in shown.order if y[i] > 0]))
            else:
                model.learn_one(x, y, context=context or None)
    return model


@pytest.fixture(scope="module")
def database():
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs")
    pytest.importorskip("psycopg")
    with postgresql.running() as server:
        yield server.address


def needed(to):
    for module in {"onnx": ("onnx", "onnxruntime"), "duckdb-tables": ("duckdb",)}.get(to, (to,)):
        if to in ("onnx", "duckdb", "duckdb-tables", "lightgbm", "xgboost"):
            pytest.importorskip(module)
    if to == "c" and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")


def stub_of(to, model, content, columns, names):
    """The reader that stands for a search engine, and what follows its host in the address."""
    if to == "vespa":
        return stub_engines.Vespa(content, columns, None), "/shop/product"
    if to == "solr":
        return stub_engines.Solr(content, columns, solr_features(model, names=names)), "/solr/shop"
    if to == "painless":
        return stub_engines.Elastic(content, columns, None), ""
    fields = {"function_score": {"field_value_factor": {"field": "FIELD", "missing": 0}}}
    features = [{"name": c, "template": json.loads(json.dumps(fields).replace("FIELD", c))} for c in columns]
    return stub_engines.Elastic(content, columns, features), ""


def plain_scores(body, given):
    """The scores of JSON, whose columns are made here as its description says."""
    found = []
    for query, same in zip(given.queries, given.contexts, strict=True):
        rows = []
        for probe in query:
            fields = probe.fields | same["fields"]
            row = [fields.get(name, np.nan if given.takes_missing else 0.0) for name in body["features"]]
            for field, levels in (body.get("categories", {}) | body.get("context", {})).items():
                known = [level for level, _ in levels] if isinstance(levels, list) else []
                for level, j in levels if isinstance(levels, list) else []:
                    own = fields.get(field)
                    row[j] = float(own is not None and (own not in known if level is None else own == level))
            for field, columns in body.get("vectors", {}).items():
                d, q = (np.array(v or [np.nan], float) for v in (fields.get(field), fields.get(f"query {field}")))
                for how, column in columns.items():
                    M = np.array(column["matrix"])
                    without = len(M) == 1 and how in ("linear", "alone")
                    t = M[0] if without else q / np.sqrt(q @ q) @ M if len(q) == len(M) else d * np.nan
                    ok = len(d) == M.shape[1] and d.any() and (how != "alone" or f"query {field}" not in fields)
                    value = float(t @ d / np.sqrt(d @ d)) if ok else np.nan
                    row[column["column"]] = 0.0 if value != value and not given.takes_missing else value
            rows.append(row)
        found.append(engines.plain(body, np.array(rows, float)))
    return found


CELLS = [(to, part) for part in PARTS for to in TARGETS]


@pytest.mark.first(8)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("to", "part"), CELLS)
def test_a_cell(to, part, tmp_path, request):
    own = cell(to, part)
    for k in range(len(MODELS[part])):
        model = taught(part, k)
        options = {"queries": [LISTS]} if "fusion" in TARGETS[to].kinds else {}
        if not own.how:
            reason = MORE.get(part, own.reason)
            with pytest.raises(TypeError, match=f"RunFeatures|{MORE['words']}" if "fusion" in TARGETS[to].kinds else reason):
                export(model, to, **options)
            continue
        # Histories call features "a 1000 rate", which fields of search engines are not called.
        options |= {"names": {f"a 1000 {c}": f"a_{c}" for c in ("impressions", "rate", "age")}} if part == "histories" else {}
        content = export(model, to, name="shop", **options)
        if part == "lists":
            assert content
            continue
        needed(to)
        path, given = tmp_path / "model", probes(model, to, name="shop", **options)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        Path(f"{path}.probes.json").write_text(given.to_json())
        if to == "json":
            for query, scores in zip(given.queries, plain_scores(json.loads(content), given), strict=True):
                assert scores == pytest.approx([probe.score for probe in query], rel=1e-6, abs=1e-6)
            continue
        engine, stub = None, None
        if to == "postgresql":
            engine = request.getfixturevalue("database")
        elif to in ("elasticsearch", "opensearch", "painless", "solr", "vespa"):
            columns = [feature["name"] for feature in given.features]
            stub, after = stub_of(to, model, content, columns, options.get("names"))
            with stub_engines.running(stub) as host:
                verdict = verify(str(path), engine=f"http://{host}{after}")
        if stub is None:
            verdict = verify(str(path), engine=engine)
        assert verdict.equal, (k, verdict.in_words())
        scores = [(probe.score, probe.model) for query in given.queries for probe in query]
        if cell(to, "networks").how:
            # Blends compare maps of quantiles in single precision, so that a value at a threshold may go to the other side.
            found, expected = np.array(scores).T
            equal = np.abs(found - expected) <= 1e-5 * (1.0 + np.abs(expected).max())
            assert equal.mean() >= (0.85 if isinstance(model, BlendRanker) else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["c", "duckdb", "duckdb-tables", "onnx", "painless", "vespa"])
@pytest.mark.parametrize(("part", "k", "place"), [("vectors", 0, "vector_fields._single"), ("context", 0, "door._product_of")])
def test_a_planted_difference_is_found(to, part, k, place, tmp_path, monkeypatch):
    """A matrix that differs in its entries by .05, and a product with another user."""
    needed(to)
    model, module = taught(part, k), importlib.import_module(f"online_rank.export.{place.partition('.')[0]}")
    own, name = getattr(module, place.partition(".")[2]), place.partition(".")[2]

    def other_user(step, column, names):
        feature, entry = own(step, column, names)
        swapped = {("user", "is", "ada"): ("user", "is", "bob"), ("user", "is", "bob"): ("user", "is", "ada")}
        return feature, swapped.get(entry, entry)

    path, given = tmp_path / "model", probes(model, to, name="shop")
    with monkeypatch.context() as patch:
        patch.setattr(module, name, (lambda W: own(W + 0.05)) if part == "vectors" else other_user)
        content = export(model, to, name="shop")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    Path(f"{path}.probes.json").write_text(given.to_json())
    if to in ("painless", "vespa") and part == "vectors":
        pytest.skip("there the caller makes what follows from the matrix")
    if to in ("c", "onnx") and part == "context":
        pytest.skip("there the caller makes the columns of the context")
    if to in ("painless", "vespa"):
        stub, after = stub_of(to, model, content, [feature["name"] for feature in given.features], None)
        with stub_engines.running(stub) as host:
            verdict = verify(str(path), engine=f"http://{host}{after}")
    else:
        verdict = verify(str(path))
    assert not verdict.equal


@pytest.mark.parametrize(
    "make", [lambda: KernelPerceptronRanker(budget=5), lambda: HashedFeatures(bits=6) | PerceptronRanker()]
)
def test_models_without_a_closed_form_go_nowhere(make):
    model = make()
    model.learn_one([{"a": 1.0}, {"a": 2.0}], [0, 1])
    for to in TARGETS:
        with pytest.raises(TypeError, match=r"has no closed form|RunFeatures"):
            export(model, to)


def test_the_reason_why_words_are_not_exported_has_the_remedy():
    """The remedy named a text 'title', also where the model has none, and nothing that the shell can do."""
    model, rng = AdditiveRanker(), np.random.default_rng(0)
    for _ in range(60):
        names = [" ".join(rng.choice([f"word{k}" for k in range(40)], 4, replace=False)) for _ in range(8)]
        model.learn_one(
            [{"name": name, "price": float(rng.random())} for name in names], [int("word1" in name) for name in names]
        )
    remedy = r"words of 'name', .*: AdditiveRanker\(kinds=\{'name': 'ignored'\}\); in the shell train --for"
    with pytest.raises(TypeError, match=remedy):
        export(model, "onnx")


def test_the_page_has_the_table():
    """`python -m tests.export.test_cells` writes it."""
    assert _between(PAGE.read_text()) == as_table()


def test_each_gap_has_a_reason_and_each_part_a_target():
    made = [cell(to, part) for to, part in CELLS]
    assert all(bool(one.how) != bool(one.reason) for one in made)
    assert {one.part for one in made if one.how} == {*PARTS} - {"words"}


def test_a_query_has_inputs_of_an_engine():
    model = taught("vectors", 0)
    context = {"embedding": [3.0, 0.0, 4.0]}
    made = query_inputs(model, "painless", context)
    assert made["embedding_cosine"] == pytest.approx([0.6, 0.0, 0.8])
    t = model.adapt([3.0, 0.0, 4.0]) / 10.0 - np.array([0.6, 0.0, 0.8])
    assert made["embedding_learned"] == pytest.approx(t.tolist(), abs=1e-6)
    assert query_inputs(model, "painless", {}) == dict.fromkeys(made)
    assert query_inputs(model, "vespa", {}) == {"input.query(embedding_given)": 0.0}
    crossed = taught("context", 0)
    assert query_inputs(crossed, "painless", {"user": "ada", "length": 2.0}) == {"user": "ada", "length": 2.0}
    inputs = query_inputs(crossed, "vespa", {"user": "ada", "length": 2.0})
    assert inputs == {"input.query(user)": {"ada": 1.0}, "input.query(length)": 2.0}
    with pytest.raises(ValueError, match="painless and vespa take inputs with a query"):
        query_inputs(model, "c", context)
    with pytest.raises(ValueError, match="the query has 2 dimensions, but the model has learned 'embedding' from 3"):
        query_inputs(model, "painless", {"embedding": [1.0, 2.0]})


_BEGIN, _END = "<!-- cells -->\n", "<!-- /cells -->"


def _between(text):
    return text.split(_BEGIN)[1].split(_END)[0]


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    PAGE.write_text(f"{before}{_BEGIN}{as_table()}{_END}{rest.partition(_END)[2]}")
