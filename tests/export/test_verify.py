"""`export` writes probes, and `verify` finds each planted difference: in programs that run here, and in stubs of engines."""

import json
import shutil

import numpy as np
import pytest

from online_rank import AdditiveRanker, PerceptronRanker, StreamScaler, export, save
from online_rank.base import closed
from online_rank.base.form import Curves, Trees
from online_rank.cli import main
from online_rank.export import door
from online_rank.export.probing import Probes
from online_rank.export.verifying.asking import probes_beside, verify
from online_rank.rankers.click_trees import ClickTrees
from tests.export import stub_engines
from tests.reference import postgresql

LEVELS = ("acme", "bolt's", "core")


def queries(n=60, m=12, seed=0):
    """Queries with a price that is sometimes missing, a brand, and clicks; all numbers are above 0."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x, y = [], []
        for _ in range(m):
            own = {"clicks": float(rng.integers(1, 9)), "price": float(np.exp(rng.normal())), "brand": str(rng.choice(LEVELS))}
            y.append(int(own["clicks"] * (own["brand"] == "acme") > 3) + int(own["price"] < 1.0))
            if rng.random() < 0.2:
                del own["price"]
            x.append(own)
        yield x, y


@pytest.fixture(scope="module")
def model():
    made = AdditiveRanker(relative=False, trees=40)
    for x, y in queries():
        made.learn_one(x, y)
    return made


@pytest.fixture(scope="module")
def relative():
    made = AdditiveRanker(trees=40)
    for x, y in queries():
        made.learn_one(x, y)
    return made


def written(model, to, folder, name="shop", content=None):
    """The path of an exported model, and its probes next to it."""
    path = folder / f"model.{to}"
    made = export.export(model, to, name=name) if content is None else content
    path.write_bytes(made if isinstance(made, bytes) else made.encode())
    (folder / f"model.{to}.probes.json").write_text(export.probes(model, to, name=name).to_json())
    return path


def edited(form, change):
    """A form in which `change` has edited the first layer, head or form that it takes."""
    if hasattr(form.head, "forms"):
        inner = [edited(one, change) for one in form.head.forms]
        return form._replace(head=form.head._replace(forms=tuple(inner)), names=change(form.names) or form.names)
    layers = tuple(change(layer) or layer for layer in form.layers)
    return form._replace(layers=layers, head=change(form.head) or form.head, names=change(form.names) or form.names)


def another_threshold(part):
    if isinstance(part, Trees) and part.trees:
        n, tree = max(enumerate(part.trees), key=lambda pair: _spread(pair[1]))
        thresholds = tree.thresholds.copy()
        thresholds[0] += 0.05
        return part._replace(trees=(*part.trees[:n], tree._replace(thresholds=thresholds), *part.trees[n + 1 :]))
    return None


def _spread(tree):
    """How much leaves differ in a tree whose root splits clicks, or the price, in the middle of its mapped values."""
    middle = tree.columns[0] in (0, 1) and 0.2 < tree.thresholds[0] < 0.8
    return np.ptp(tree.values[tree.columns < 0]) if middle else -1.0


def another_missing(part):
    if isinstance(part, Curves) and part.missing is not None:
        return part._replace(missing=part.missing + 0.5 * (part.lacked if part.lacked is not None else 1.0))
    return None


def cut_level(part):
    if type(part) is tuple and ("brand", "is", "bolt's") in part:
        return tuple(("brand", "is", "bolt") if name == ("brand", "is", "bolt's") else name for name in part)
    return None


PLANTED = {"a changed threshold": another_threshold, "another missing value": another_missing, "a cut level": cut_level}
REASONS = {"a changed threshold": "", "another missing value": "price is missing", "a cut level": 'brand is "bolt\'s"'}


def exported_wrongly(model, to, change, monkeypatch):
    """The export of a model that differs in one place."""
    with monkeypatch.context() as patch:
        patch.setattr(door, "form_of", lambda of: edited(closed.form_of(of), change))
        return export.export(model, to, name="shop")


def needed(to):
    for module in {"onnx": ("onnx", "onnxruntime"), "c": (), "duckdb-tables": ("duckdb",)}.get(to, (to,)):
        pytest.importorskip(module)
    if to == "c" and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")


@pytest.mark.first(3)
@pytest.mark.parametrize("to", ["onnx", "lightgbm", "xgboost", "c", "duckdb", "duckdb-tables"])
def test_a_program_that_computes_the_model_is_equal(to, model, relative, tmp_path):
    needed(to)
    made = [model, relative] if to in ("c", "onnx", "duckdb", "duckdb-tables") else [model]
    for one in made:
        verdict = verify(str(written(one, to, tmp_path)))
        assert verdict.equal, verdict.in_words()
        assert verdict.n_documents > 60
        assert verdict.otherwise == 0
        assert verdict.in_words().startswith("equal: ")


@pytest.mark.parametrize("to", ["c", "onnx", "duckdb", "duckdb-tables"])
def test_a_boolean_of_which_both_values_are_known_has_no_unknown_one(to, tmp_path):
    """Documents without it were probed as "false", with the scores of missing values: right exports were called wrong."""
    needed(to)
    made, rng = AdditiveRanker(relative=False, trees=0), np.random.default_rng(0)
    for x, _ in queries():
        x = [own | ({"new": bool(rng.random() < 0.5)} if rng.random() < 0.8 else {}) for own in x]
        made.learn_one(x, [2 if own.get("new") is False else int("new" in own) for own in x])
    verdict = verify(str(written(made, to, tmp_path)))
    assert verdict.equal, verdict.in_words()


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("to", ["c", "onnx", "duckdb", "duckdb-tables", "lightgbm", "xgboost"])
def test_a_planted_difference_in_a_program_is_found(to, planted, model, tmp_path, monkeypatch):
    needed(to)
    if planted == "a cut level" and to in ("c", "onnx", "lightgbm", "xgboost"):
        pytest.skip("there the caller makes the columns of levels")
    content = exported_wrongly(model, to, PLANTED[planted], monkeypatch)
    verdict = verify(str(written(model, to, tmp_path, content=content)))
    assert not verdict.equal
    assert REASONS[planted] in verdict.reasons[0]
    assert "NOT equal: " in verdict.in_words()
    assert f"  {verdict.differences[0].probe.id}: " in verdict.in_words()


@pytest.mark.slow
def test_postgresql_is_asked_in_a_transaction_and_each_difference_found(model, relative, tmp_path, monkeypatch):
    pytest.importorskip("psycopg")
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs")
    with postgresql.running() as server:
        for one in (model, relative):
            verdict = verify(str(written(one, "postgresql", tmp_path)), engine=server.address)
            assert verdict.equal, verdict.in_words()
            assert verdict.engine.startswith("PostgreSQL ")
        for planted, change in PLANTED.items():
            content = exported_wrongly(model, "postgresql", change, monkeypatch)
            verdict = verify(str(written(model, "postgresql", tmp_path, content=content)), engine=server.address)
            assert not verdict.equal, planted
            assert REASONS[planted] in verdict.reasons[0]


def columns_of(model, to):
    return [feature["name"] for feature in export.probes(model, to).features]


TEMPLATES = {
    name: {"function_score": {"field_value_factor": {"field": name, "missing": 0}, "boost_mode": "replace"}}
    for name in ("clicks", "price")
}


def stub_for(to, model, content):
    """The stub that runs an exported model, and the address that `verify` takes, after its host."""
    columns = columns_of(model, to)
    if to == "vespa":
        return stub_engines.Vespa(content, columns, None), "/shop/product"
    if to == "solr":
        return stub_engines.Solr(content, columns, export.solr_features(model)), "/solr/shop"
    whole = export.to_elasticsearch(model, name="shop", names=TEMPLATES)
    return stub_engines.Elastic(content, columns, whole["POST _ltr/_featureset/shop"]["featureset"]["features"]), ""


@pytest.mark.slow
@pytest.mark.parametrize("to", ["elasticsearch", "opensearch", "painless", "solr", "vespa"])
def test_search_engines_are_asked_by_their_requests_and_each_difference_is_found(to, model, tmp_path, monkeypatch):
    path = written(model, to, tmp_path)
    for planted, change in {"none": None, **PLANTED}.items():
        content = path.read_text() if change is None else exported_wrongly(model, to, change, monkeypatch)
        stub, after = stub_for(to, model, content)
        if planted == "a cut level" and to in ("elasticsearch", "opensearch", "solr"):
            # There a filter makes the level; the engine's filter is for another one.
            stub.columns = [column.replace("bolt's", "bolt") for column in stub.columns]
            stub.content = path.read_text() if to == "solr" else path.read_text().replace("bolt's", "bolt")
        if to == "painless" and change is not None:
            written(model, to, tmp_path, content=content)
        if to == "painless":
            stub.columns = columns_of(model, to) if planted != "a cut level" else stub.columns
        with stub_engines.running(stub) as host:
            verdict = verify(str(path), engine=f"http://ada:secret@{host}{after}")
        assert not stub.documents
        assert {authorization for _, _, authorization in stub.seen} == {"Basic YWRhOnNlY3JldA=="}
        assert verdict.equal == (planted == "none"), (planted, verdict.in_words())
        if planted in ("another missing value", "a cut level"):
            assert any(REASONS[planted] in reason for reason in verdict.reasons), verdict.in_words()


@pytest.mark.slow
def test_probes_that_a_stopped_run_left_in_solr_are_not_asked_for(model, tmp_path):
    path = written(model, "solr", tmp_path)
    stub, after = stub_for("solr", model, path.read_text())
    stub.documents["online_rank_probe_of another run"] = {"key": "online_rank_probe_of another run"}
    with stub_engines.running(stub) as host:
        verdict = verify(str(path), engine=f"http://{host}{after}")
    assert verdict.equal, verdict.in_words()
    assert not stub.documents


def test_what_a_probe_cannot_set_is_named(tmp_path):
    ranker = PerceptronRanker.from_weights({"bm25": 2.0, "clicks": 0.5})
    path = written(ranker, "elasticsearch", tmp_path)
    features = [
        {"name": "bm25", "template": {"match": {"title": "{{words}}"}}},
        {"name": "clicks", "template": TEMPLATES["clicks"]},
    ]
    with (
        stub_engines.running(stub_engines.Elastic(path.read_text(), ["bm25", "clicks"], features)) as host,
        pytest.raises(ValueError, match=r"feature 'bm25' is the query .*, whose value a probe cannot set"),
    ):
        verify(str(path), engine=f"http://{host}")


def test_an_engine_that_does_not_answer_is_one_line_without_the_password(tmp_path, capsys):
    path = written(PerceptronRanker.from_weights({"clicks": 2.0}), "elasticsearch", tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["verify", str(path), "--engine", "http://ada:secret@127.0.0.1:9"])
    err = capsys.readouterr().err
    assert (left.value.code, err.count("\n"), "secret" in err) == (2, 1, False)
    assert "no answer" in err


def test_answers_may_come_from_a_file(tmp_path):
    path = written(PerceptronRanker.from_weights({"clicks": 2.0}), "json", tmp_path)
    probes = Probes.from_json((tmp_path / "model.json.probes.json").read_text())
    scores = {probe.id: 2.0 * probe.fields.get("clicks", 0.0) for query in probes.queries for probe in query}
    (tmp_path / "answers.json").write_text(json.dumps(scores))
    assert verify(str(path), answers=str(tmp_path / "answers.json")).equal
    wrong = next(probe.id for probe in probes.queries[0] if probe.fields.get("clicks", 0.0) == 1.0)
    (tmp_path / "answers.json").write_text(json.dumps(scores | {wrong: 2.5}))
    verdict = verify(str(path), answers=str(tmp_path / "answers.json"))
    assert [one.probe.id for one in verdict.differences] == [wrong]
    assert f"{wrong}: 2.5 there, 2 here; clicks=1.0" in verdict.in_words()
    (tmp_path / "answers.json").write_text(json.dumps({}))
    with pytest.raises(ValueError, match="probes have no score, p0 among them"):
        verify(str(path), answers=str(tmp_path / "answers.json"))


def test_the_command_writes_probes_and_verifies(model, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    save(model, tmp_path / "m.npz")
    with pytest.raises(SystemExit) as left:
        main(["export", str(tmp_path / "m.npz"), "--to", "onnx", "--out", str(tmp_path / "m.onnx")])
    assert left.value.code == 0
    assert "probe documents" in capsys.readouterr().err
    assert probes_beside(str(tmp_path / "m.onnx")) == str(tmp_path / "m.onnx.probes.json")
    with pytest.raises(SystemExit) as left:
        main(["verify", str(tmp_path / "m.onnx")])
    assert (left.value.code, capsys.readouterr().out.startswith("equal: ONNX Runtime ")) == (0, True)
    other = StreamScaler() | ClickTrees()
    for x, y in queries(20):
        other.learn_one([{k: v for k, v in one.items() if k != "brand"} | {"price": one.get("price", 0.0)} for one in x], y)
    (tmp_path / "m.onnx").write_bytes(exported_of_width(model, other))
    with pytest.raises(SystemExit) as left:
        main(["verify", str(tmp_path / "m.onnx")])
    assert left.value.code != 0


def exported_of_width(model, other):
    """The ONNX export of a model that has learned two more queries."""
    for x, y in queries(2, seed=9):
        model.learn_one(x, y)
    return export.export(model, "onnx")


def test_splits_are_reached_at_their_thresholds_and_just_below():
    model = StreamScaler() | ClickTrees()
    for x, y in queries(40):
        model.learn_one([{"clicks": one["clicks"], "price": one.get("price", 9.0)} for one in x], y)
    made = export.probes(model, "c")
    assert made.splits > 0
    assert made.reached >= 0.98 * made.splits
    assert len({probe.id for query in made.queries for probe in query}) == sum(map(len, made.queries))


def test_probes_have_ties_missing_values_unknown_levels_and_values_far_away(model):
    (query,) = export.probes(model, "json").queries
    fields = [json.dumps(probe.fields, sort_keys=True) for probe in query]
    assert len({*fields}) < len(fields)
    assert any("price" not in probe.fields for probe in query)
    assert any(probe.fields.get("brand") not in (None, *LEVELS) for probe in query)
    assert max(probe.fields.get("price", 0.0) for probe in query) > 1e3
