"""ForEachDocument: river's transformers on queries."""

import collections
import copy
import datetime as dt
import pickle
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from river import base, compose, feature_extraction, feature_selection, linear_model, preprocessing, stats, utils

from online_rank import (
    Clicks,
    ForEachDocument,
    Impression,
    PerceptronRanker,
    QueryNormalizer,
    RankingPipeline,
    RunFeatures,
    Runs,
    StreamScaler,
)
from online_rank.base.undo import all_or_nothing
from online_rank.query import read_query
from tests.helpers import NAMES, as_block, as_dicts, state_of, teacher_queries


def double(x):
    return {f"2 {name}": 2.0 * value for name, value in x.items()}


TRANSFORMERS = {
    "StandardScaler": preprocessing.StandardScaler,
    "MinMaxScaler": preprocessing.MinMaxScaler,
    "RobustScaler": preprocessing.RobustScaler,
    "Select": lambda: compose.Select("a", "c"),
    "Discard": lambda: compose.Discard("b"),
    "union": lambda: preprocessing.MinMaxScaler() + compose.FuncTransformer(double),
    "pipeline": lambda: compose.Discard("a") | preprocessing.StandardScaler() | feature_extraction.PolynomialExtender(2),
    "pipelines": lambda: (compose.Select("a") | preprocessing.StandardScaler()) + compose.Select("b"),
    "RBFSampler": lambda: feature_extraction.RBFSampler(n_components=5, seed=1),
    "SelectKBest": lambda: feature_selection.SelectKBest(stats.PearsonCorr(), k=2),
    "VarianceThreshold": feature_selection.VarianceThreshold,
}
every_transformer = pytest.mark.parametrize("make", TRANSFORMERS.values(), ids=TRANSFORMERS)


def by_hand(transformer, x, y):
    """One query through a river transformer, document by document, as its pipelines do it."""
    if transformer._supervised:
        answer = {i: transformer.transform_one(document) for i, document in x.items()}
        for i, document in x.items():
            transformer.learn_one(document, y[i])
        return answer
    for document in x.values():
        transformer.learn_one(document)
    return {i: transformer.transform_one(document) for i, document in x.items()}


def dense(answer):
    names = list(dict.fromkeys(name for x in answer.values() for name in x))
    return {i: {name: float(x.get(name, 0.0)) for name in names} for i, x in answer.items()}


@every_transformer
def test_one_document_after_the_other(make):
    plain, lifted, ranker = make(), ForEachDocument(make()), PerceptronRanker()
    pipeline = ForEachDocument(make()) | PerceptronRanker()
    assert type(pipeline) is RankingPipeline
    for X, y in teacher_queries():
        x, grades = as_dicts(X, y)
        answer = dense(by_hand(plain, x, grades))
        lifted.learn_one(x, grades)
        pipeline.learn_one(x, grades)
        ranker.learn_one(answer, grades)
    x, _ = as_dicts(*teacher_queries(seed=1)[0])
    expected = dense({i: plain.transform_one(document) for i, document in x.items()})
    assert lifted.transform_one(x) == expected
    assert pipeline.transform_one(x) == expected
    assert pipeline.predict_one(x) == ranker.predict_one(expected)
    assert pipeline.rank_one(x) == ranker.rank_one(expected)


@pytest.mark.first(2)
@every_transformer
def test_every_form_and_block(make):
    stream = [query for query in teacher_queries() if len(query[1])]
    models = {form: ForEachDocument(make()) | PerceptronRanker() for form in ("ids", "dicts", "frame", "block")}
    for X, y in stream:
        x, grades = as_dicts(X, y)
        models["ids"].learn_one(x, grades)
        models["dicts"].learn_one(list(x.values()), y)
        models["frame"].learn_one(pd.DataFrame(X, columns=NAMES), y)
    X, y, qid = as_block(stream)
    models["block"].learn_many(pd.DataFrame(X, columns=NAMES), y, qid)
    x, _ = as_dicts(*teacher_queries(seed=1)[0])
    expected = models["ids"].predict_one(x)
    for form, model in models.items():
        assert model["PerceptronRanker"].n_features == models["ids"]["PerceptronRanker"].n_features, form
        assert model.predict_one(x) == expected, form
    scores = models["block"].predict_many(pd.DataFrame(X, columns=NAMES), qid)
    assert scores.tolist() == [s for X, _ in stream for s in models["ids"].predict_one(pd.DataFrame(X, columns=NAMES))]


def test_arrays_name_their_features_by_position():
    lifted, plain = ForEachDocument(compose.Select(0, 2) | preprocessing.StandardScaler()), StreamScaler()
    both = ForEachDocument(compose.Select(0, 2) | preprocessing.StandardScaler()) | PerceptronRanker()
    for X, y in teacher_queries():
        lifted.learn_one(X)
        plain.learn_one(X)
        both.learn_one(X, y)
        both.learn_one(X.tolist() if len(X) else [], y)
    X, _ = teacher_queries(seed=1)[0]
    answer = lifted.transform_one(X)
    assert isinstance(answer, np.ndarray)
    np.testing.assert_allclose(answer, plain.transform_one(X)[:, [0, 2]], rtol=1e-9)
    assert lifted.transform_one(X.tolist()).tobytes() == answer.tobytes()
    assert both["PerceptronRanker"].feature_names == (0, 2)
    assert both.predict_one(X) == both.predict_one(X.tolist())


def test_texts_and_categories():
    model = (
        ForEachDocument(
            (compose.Select("title") | feature_extraction.BagOfWords("title"))
            + (compose.Select("kind") | preprocessing.OneHotEncoder())
            + compose.Select("clicks")
        )
        | PerceptronRanker()
    )
    query = {
        "i": {"title": "rank online", "kind": "pdf", "clicks": 3},
        "j": {"title": "learn to rank", "kind": "html", "clicks": 0, "unused": None},
    }
    model.learn_one(query, {"i": 0, "j": 1})
    assert model.rank_one(query) == ["j", "i"]
    assert model.transform_one(query)["i"]["learn"] == 0.0
    frame = pd.DataFrame({"title": ["rank online", "learn"], "kind": ["pdf", "html"], "clicks": [3, 0]})
    other = model.clone()
    other.learn_many(pd.concat([frame, frame]), [0, 1, 0, 1], [1, 1, 2, 2])
    assert other.rank_one(frame) == [1, 0]
    assert "kind_pdf" in model.debug_one(query)
    with pytest.raises(TypeError, match="feature 'title' of document 'i' is 'rank online'"):
        (StreamScaler() | PerceptronRanker()).learn_one(query, {"i": 0, "j": 1})


def test_features_of_encoders_join_other_features():
    encoded = ForEachDocument(compose.Select("kind") | preprocessing.OneHotEncoder())
    model = (encoded + ForEachDocument(compose.Select("length"))) | PerceptronRanker()
    query = {"i": {"kind": "pdf", "length": 3.0, "title": "x"}, "j": {"kind": "html", "length": 1.0, "title": "y"}}
    for _ in range(2):
        model.learn_one(query, {"i": 0, "j": 1})
    assert model.rank_one(query) == ["j", "i"]
    names = model["PerceptronRanker"].feature_names
    assert [name.rpartition(".")[2] for name in names] == ["kind_pdf", "kind_html", "length"]


def test_several_queries_at_once_are_refused_not_learned_as_nothing():
    one, two = [{"length": 1.0}, {"length": 2.0}], [{"length": 5.0}, {"length": 2.0}]
    river_steps = (preprocessing.StandardScaler, preprocessing.OneHotEncoder, lambda: compose.Select("length"))
    models = [PerceptronRanker(), StreamScaler() | PerceptronRanker(), compose.Pipeline(StreamScaler(), PerceptronRanker())]
    models += [ForEachDocument(step()) | PerceptronRanker() for step in river_steps]
    for model in models:
        for call in all_calls(model, [one, two]):
            with pytest.raises(TypeError, match=r"x is a list of 2 queries|Unsupported dataframe type"):
                call()
    # A pipeline of river does not ask the ranker: the transformer of single documents fails without advice.
    for model in [compose.Pipeline(step(), PerceptronRanker()) for step in river_steps]:
        for call in all_calls(model, [one, two]):
            with pytest.raises(
                (AttributeError, TypeError), match=r"no attribute 'items'|list indices|Unsupported dataframe type"
            ):
                call()
        assert model["PerceptronRanker"].last_round is None


def all_calls(model, queries):
    return lambda: model.learn_one(queries, [1, 0]), lambda: model.predict_one(queries), lambda: model.predict_many(queries)


def test_a_function_before_reads_what_was_given():
    def length(query):
        return {i: {"words": len(x["title"].split())} for i, x in query.items()}

    model = length | StreamScaler() | PerceptronRanker()
    query = {"i": {"title": "rank"}, "j": {"title": "learn to rank"}}
    model.learn_one(query, {"i": 0, "j": 1})
    assert model.rank_one(query) == ["j", "i"]


def test_behind_another_step_and_in_a_chain():
    chain = StreamScaler() | ForEachDocument(feature_extraction.PolynomialExtender(2)) | double_query | PerceptronRanker()
    for X, y in teacher_queries():
        chain.learn_one(*as_dicts(X, y))
    assert chain["PerceptronRanker"].n_features == 3 + 3 + 3


def double_query(query):
    return {i: {name: 2 * value for name, value in x.items()} for i, x in query.items()}


@every_transformer
def test_rejected_queries_change_nothing(make):
    model = ForEachDocument(make()) | PerceptronRanker()
    stream = [query for query in teacher_queries() if len(query[1]) > 3]
    for X, y in stream[:3]:
        model.learn_one(*as_dicts(X, y))
    before, inner = copy.deepcopy(model), model[0].transformer
    x, grades = as_dicts(*stream[3])
    nan = {i: {**document, "b": np.nan} if i == "doc2" else document for i, document in x.items()}
    with pytest.raises(ValueError, match="feature 'b' of document 'doc2' is nan"):
        model.learn_one(nan, grades)
    with pytest.raises(ValueError, match="'doc1' is -3"):
        model.learn_one(x, {**grades, "doc1": -3})
    X, y, qid = as_block(stream[4:6])
    X[5, 1] = np.inf
    with pytest.raises(ValueError, match="document 5"):
        model.learn_many(pd.DataFrame(X, columns=NAMES), y, qid)
    assert model[0].transformer is inner
    after_before, after = copy.deepcopy(before), model
    for X, y in stream[6:9]:
        after_before.learn_one(*as_dicts(X, y))
        after.learn_one(*as_dicts(X, y))
    x, _ = as_dicts(*stream[9])
    assert after.predict_one(x) == after_before.predict_one(x)
    assert state_of(after[-1]) == state_of(after_before[-1])


def test_what_leaves_must_be_finite_numbers():
    with pytest.raises(TypeError, match="feature 'kind' of document 'i' is 'pdf'; features are numbers"):
        ForEachDocument(compose.Select("kind")).transform_one({"i": {"kind": "pdf"}})
    infinite = ForEachDocument(compose.FuncTransformer(lambda x: {"a": x["a"] * 1e308}))
    with pytest.raises(ValueError, match="feature 'a' of document 1 is inf"):
        infinite.transform_one([{"a": 1.0}, {"a": 10.0}])


@every_transformer
def test_copies(make):
    model = ForEachDocument(make()) | PerceptronRanker()
    for X, y in teacher_queries():
        model.learn_one(*as_dicts(X, y))
    x, _ = as_dicts(*teacher_queries(seed=1)[0])
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)) if "union" not in str(make) else model):
        assert twin.predict_one(x) == model.predict_one(x)
    clone = model.clone()
    assert repr(clone) == repr(model)
    assert clone.last_round is None
    assert "ForEachDocument" in model._repr_html_()


def test_refused():
    with pytest.raises(TypeError, match="StreamScaler works on queries already"):
        ForEachDocument(StreamScaler())
    with pytest.raises(TypeError, match="transformer is"):
        ForEachDocument(linear_model.LogisticRegression())
    with pytest.raises(TypeError, match="FuncTransformer"):
        ForEachDocument(double)
    with pytest.raises(TypeError, match="supervised: it learns from grades"):
        ForEachDocument(feature_selection.SelectKBest(stats.PearsonCorr())).learn_one([{"a": 1.0}])
    with pytest.raises(TypeError, match="supervised: it learns from grades"):
        ForEachDocument(groups()).learn_one({"i": {"kind": "a"}}, Clicks(Impression(("i",), positions=(1,)), (1.0,)))
    for other in (preprocessing.MinMaxScaler(), "group"):
        with pytest.raises(TypeError, match=r"before they are lifted: ForEachDocument\(a \+ b\)"):
            StreamScaler() + other
        with pytest.raises(TypeError, match=r"lift the whole: ForEachDocument\(a \* b\)"):
            ForEachDocument(preprocessing.MinMaxScaler()) * other


def test_an_object_that_learns_at_two_places_is_refused_and_one_without_state_is_not():
    scaler, select = preprocessing.StandardScaler(), compose.Select("a")
    for twice in (scaler | scaler, scaler | compose.Grouper(scaler, by="a")):
        with pytest.raises(ValueError, match="the same object twice, StandardScaler: make another"):
            ForEachDocument(twice)
    ForEachDocument(select | select | scaler)
    ForEachDocument(scaler + scaler)  # River copies what it unites.


@pytest.mark.parametrize("make", [preprocessing.StandardScaler, preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler])
def test_being_asked_about_a_feature_changes_nothing(make):
    """River's scalers remember a default of every feature that they are asked about."""
    step = ForEachDocument(compose.Discard("c") | make())
    step.learn_one([{"a": 1.0, "c": 2.0}, {"a": 3.0}])
    before = state_of(step)
    step.transform_one([{"a": 2.0, "b": 1.0}, {"new": 1.0}])
    assert state_of(step) == before


def test_runs_are_refused_before_anything_is_learned():
    """A transformer that had learned nothing ranked them, all with 0."""
    runs = Runs({"bm25": [("a", 3.0), ("b", 1.0)]})
    model = ForEachDocument(preprocessing.MaxAbsScaler()) | PerceptronRanker()
    for call in (model.predict_one, lambda x: model.learn_one(x, {"a": 0, "b": 1})):
        with pytest.raises(TypeError, match="put RunFeatures"):
            call(runs)
    (RunFeatures() | model).learn_one(runs, {"a": 0, "b": 1})


@pytest.mark.parametrize(
    "transformer",
    [
        preprocessing.Normalizer(),
        preprocessing.Normalizer() | preprocessing.StandardScaler(),
        compose.Select("x") + preprocessing.Normalizer(),
    ],
)
def test_a_text_never_reaches_a_norm_which_would_take_500_bytes_for_each_of_its_characters(transformer):
    lifted, text = ForEachDocument(transformer), "a" * 20_000
    tracemalloc.start()
    with pytest.raises(TypeError, match=r"feature 'x' of document 0 is 'a+'; .* takes numbers"):
        lifted.transform_one([{"x": text}])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000
    categories = ForEachDocument(preprocessing.OneHotEncoder() | preprocessing.Normalizer())
    assert categories.transform_one([{"x": text}]) is not None


def test_the_answer_takes_one_array():
    lifted = ForEachDocument(compose.FuncTransformer(dict))
    block = read_query([{f"f{i}": 1.0, f"f{i + 1}": 2.0} for i in range(1000)])
    tracemalloc.start()
    answer = lifted._transform_block(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.X.shape == (1000, 1001)
    # By hand: 8 MB, plus a mask of 1 MB, and dicts of two names.
    assert peak < 1.5 * answer.X.nbytes


def groups(how=None):
    return feature_extraction.TargetAgg(by="kind", how=how or stats.BayesianMean(prior=1.0, prior_weight=2.0))


LEARNS = {
    "TargetAgg": groups,
    "TargetAgg with a window": lambda: groups(utils.Rolling(stats.Mean, window_size=3)),
    "Agg": lambda: feature_extraction.Agg(on="size", by=["kind"], how=stats.Var()),
    "TFIDF": lambda: feature_extraction.TFIDF(on="text"),
    "OneHotEncoder": lambda: compose.Select("kind") | preprocessing.OneHotEncoder(),
    "OrdinalEncoder": lambda: compose.Select("kind", "text") | preprocessing.OrdinalEncoder(),
    "StatImputer": lambda: compose.Select("size") | preprocessing.StatImputer(("size", stats.Mean())),
    "AdaptiveStandardScaler": lambda: compose.Select("size") | preprocessing.AdaptiveStandardScaler(),
    "MaxAbsScaler": lambda: compose.Select("size") | preprocessing.MaxAbsScaler(window_size=4),
    "StandardScaler": lambda: compose.Select("size") | preprocessing.StandardScaler(window_size=4),
    "RobustScaler": lambda: compose.Select("size") | preprocessing.RobustScaler(),
    "Grouper": lambda: (
        compose.Select("size", "kind") | compose.Grouper(compose.Select("size") | preprocessing.StandardScaler(), by="kind")
    ),
    "both": lambda: groups() + (compose.Select("size") | preprocessing.MinMaxScaler()),
    "chain": lambda: (
        (compose.Select("kind") + (groups() | compose.Prefixer("mean of ")))
        | compose.SelectType(float)
        | preprocessing.StandardScaler()
    ),
    "product": lambda: (compose.Select("size") | preprocessing.StandardScaler()) * compose.Select("size"),
    "KBest": lambda: compose.Select("size") | feature_selection.SelectKBest(stats.PearsonCorr(), k=1),
}


def worded(t):
    """A query of three documents, with new groups and words from time to time."""
    x = {
        i: {"kind": f"k{(t + i) % (2 + t // 5)}", "text": f"a word{t * i % 7} and", "size": float(t * i % 5)} for i in range(3)
    }
    return x, {i: (t + i) % 3 for i in range(3)}


@pytest.mark.first(3)
@pytest.mark.parametrize("make", LEARNS.values(), ids=LEARNS)
def test_what_a_later_step_refuses_is_undone_to_the_entry(make):
    """It is equal to a copy from before the query, also in the order of its entries."""
    plain, lifted = make(), ForEachDocument(make())
    model = lifted | RunTheSecond() | PerceptronRanker()
    for t in range(30):
        x, y = worded(t)
        before = pickle.dumps(model)
        model["RunTheSecond"].refuses = True
        with pytest.raises(ValueError, match="refused"):
            model.learn_one(x, y)
        model["RunTheSecond"].refuses = False
        assert described(pickle.loads(before)["ForEachDocument"].transformer) == described(lifted.transformer)
        expected = dense(by_hand(plain, x, y))
        model.learn_one(x, y)
        assert described(lifted.transformer) == described(plain), t
        assert lifted.transform_one(x) == dense({i: plain.transform_one(document) for i, document in x.items()}), (t, expected)


class RunTheSecond(QueryNormalizer):
    """Refuses queries when asked to."""

    refuses = False

    def _learn_block(self, block):
        if self.refuses:
            raise ValueError("refused")
        return super()._learn_block(block)


def described(value):
    """All that a transformer of river holds, in order, without the plans of its pipelines."""
    if isinstance(value, dict):
        plans = ("_plan", "_inference_transformers", "_last_step_cached", "_last_step_params")
        return [(key, described(held)) for key, held in value.items() if key not in plans]
    if isinstance(value, set):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple | collections.deque):
        return [described(held) for held in value]
    if type(value).__module__.startswith("river._river_rust"):
        return pickle.dumps(value)
    return described(vars(value)) if isinstance(value, base.Base) else repr(value) if not callable(value) else None


def test_an_encoder_gives_the_columns_of_river_in_its_order():
    """Its zeros are not made one by one: also for new categories, and after a query that was undone."""
    plain, lifted = preprocessing.OneHotEncoder(), ForEachDocument(compose.Select("kind") | preprocessing.OneHotEncoder())
    model = lifted | RunTheSecond() | PerceptronRanker()

    def expected(x):
        return [*map(list, map(dict.items, dense({i: plain.transform_one(document) for i, document in x.items()}).values()))]

    for kinds in (["b", "a", "b"], ["c", ["a", "d"], "\u00e9"], ["e", "\N{GREEK SMALL LETTER ALPHA}", "a"]):
        x, y = {i: {"kind": kind} for i, kind in enumerate(kinds)}, {0: 0, 1: 1, 2: 0}
        model["RunTheSecond"].refuses = True
        with pytest.raises(ValueError, match="refused"):
            model.learn_one({i: {"kind": f"undone {i}"} for i in x}, y)
        model["RunTheSecond"].refuses = False
        assert [*map(list, map(dict.items, lifted.transform_one(x).values()))] == expected(x)
        model.learn_one(x, y)
        for document in x.values():
            plain.learn_one(document)
        assert [*map(list, map(dict.items, lifted.transform_one(x).values()))] == expected(x)
    assert lifted.transform_one([]) == []
    # A part of a list is not brought into normal form by the lifted transformer, but names of columns are.
    lifted.learn_one([{"kind": ["cafe\N{COMBINING ACUTE ACCENT}"]}])
    assert lifted.transform_one([{"kind": "a"}])[0]["kind_caf\u00e9"] == 0.0


def test_a_text_is_taken_apart_once_while_it_is_learned():
    read = []
    lifted = ForEachDocument(feature_extraction.TFIDF(on="text", preprocessor=lambda text: read.append(text) or text))
    lifted.learn_one([{"text": "one two"}, {"text": "two"}])
    assert read == ["one two", "two"]


def test_groups_of_a_statistic_that_cannot_be_pickled():
    class Local(stats.Mean):
        pass

    plain, lifted = groups(Local()), ForEachDocument(groups(Local()))
    for t in range(3):
        x, y = worded(t)
        by_hand(plain, x, y)
        lifted.learn_one(x, y)
    assert described(lifted.transformer) == described(plain)


def test_windows_of_time_get_the_time_of_the_query():
    """The mean grade of each kind over ten minutes, by hand; `at=` in seconds and river's `t=` are one thing."""

    def window():
        return feature_extraction.TargetAgg(by="kind", how=utils.TimeRolling(stats.Mean, period=dt.timedelta(minutes=10)))

    one, two, three = (ForEachDocument(compose.Select("kind") | window()) | PerceptronRanker() for _ in range(3))
    start = dt.datetime(2026, 1, 1)
    seconds = start.replace(tzinfo=dt.UTC).timestamp()
    queries = [
        ([{"kind": "a"}, {"kind": "b"}], [2, 0]),
        ([{"kind": "a"}, {"kind": "b"}], [1, 0]),
        ([{"kind": "a"}, {"kind": "b"}], [0, 1]),
    ]
    for minutes, (x, y) in zip((0, 5, 12), queries, strict=True):
        one.learn_one(x, y, t=start + dt.timedelta(minutes=minutes))
        two.learn_one(x, y, at=seconds + 60 * minutes)
    rows, grades = [row for x, _ in queries for row in x], [grade for _, y in queries for grade in y]
    three.learn_many(pd.DataFrame(rows), grades, [1, 1, 2, 2, 3, 3], at=[seconds, seconds + 300, seconds + 720])
    for model in (one, two, three):
        # The first query has left the window.
        assert model.transform_one([{"kind": "a"}, {"kind": "b"}]) == [{"y_mean_by_kind": 0.5}, {"y_mean_by_kind": 0.5}]
    with pytest.raises(ValueError, match="needs t=, and learn_many at="):
        one.learn_one(*queries[0])
    with pytest.raises(TypeError, match="give one of the two"):
        one.learn_one(*queries[0], at=seconds, t=start)


@pytest.mark.parametrize("name", ["TargetAgg", "TFIDF", "OrdinalEncoder", "both"])
def test_a_query_calls_as_many_functions_after_many_items_as_at_first(name):
    lifted = ForEachDocument(LEARNS[name]())

    def calls(t):
        counted = 0

        def count(frame, event, argument):
            nonlocal counted
            counted += event in ("call", "c_call")

        x = {i: {"kind": f"k{t}-{i}", "text": f"word{t} word{i}", "size": float(i)} for i in range(3)}
        sys.setprofile(count)
        try:
            lifted.learn_one(x, {0: 0, 1: 1, 2: 2})
        finally:
            sys.setprofile(None)
        return counted

    few = [calls(t) for t in range(30)][-1]
    for t in range(30, 600):
        x = {i: {"kind": f"k{t}-{i}", "text": f"word{t} word{i}", "size": float(i)} for i in range(3)}
        lifted.learn_one(x, {0: 0, 1: 1, 2: 2})
    assert calls(600) <= 1.1 * few


class Refusing(QueryNormalizer):
    """Refuses to learn where `refuses` is set."""

    refuses = False

    def _learn_block(self, block):
        if self.refuses:
            raise ValueError("refused")
        return super()._learn_block(block)


def test_a_text_may_be_made_of_several_features():
    lifted = ForEachDocument(feature_extraction.TFIDF(preprocessor=lambda x: f"{x['title']} {x['body']}"))
    lifted.learn_one([{"title": "one two", "body": "three"}])
    assert lifted.transformer.dfs == {"one": 1, "two": 1, "three": 1}


class AnswersOne(compose.Pipeline):
    def transform_one(self, x):
        return {"one": 1.0}


class LearnsMore(compose.TransformerUnion):
    def learn_one(self, x):
        super().learn_one({name: value + 1.0 for name, value in x.items()})


def test_pipelines_and_unions_of_a_user_learn_and_answer_as_they_say():
    x = [{"a": 1.0}, {"a": 3.0}]
    answering = ForEachDocument(AnswersOne(compose.Select("a"), preprocessing.StandardScaler()))
    learning = ForEachDocument(LearnsMore(preprocessing.StandardScaler()))
    for lifted in (answering, learning):
        lifted.learn_one(x)
    assert answering.transform_one(x) == [{"one": 1.0}, {"one": 1.0}]
    assert learning.transformer.transformers["StandardScaler"].means == {"a": 3.0}


class WithTotal(stats.base.Univariate):
    """Falls back on the mean of all groups, which its copies share."""

    def __init__(self, total=None):
        self.total, self.mean = total or stats.Mean(), stats.Mean()

    def __deepcopy__(self, memo):
        return WithTotal(self.total)

    def update(self, x):
        self.mean.update(x)
        self.total.update(x)

    def get(self):
        return (self.mean.get() + self.total.get()) / 2.0


def test_a_statistic_of_a_user_is_copied_as_it_says():
    lifted = ForEachDocument(feature_extraction.TargetAgg("kind", WithTotal()))
    lifted.learn_one([{"kind": "a"}, {"kind": "b"}], [0, 2])
    assert [list(x.values()) for x in lifted.transform_one([{"kind": "a"}, {"kind": "b"}])] == [[0.5], [1.5]]


def test_what_encloses_several_queries_undoes_them_all():
    lifted = ForEachDocument(preprocessing.StandardScaler())
    lifted.learn_one([{"a": 1.0}, {"a": 2.0}])

    def learn_and_fail():
        with all_or_nothing(lifted):
            lifted.learn_one([{"a": 3.0}, {"a": 9.0}])
            lifted.learn_one([{"a": 5.0}])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        learn_and_fail()
    assert in_scaler(lifted.transformer) == ({"a": 2}, {"a": 1.5}, {"a": 0.25})


def in_scaler(scaler):
    return scaler.counts, scaler.means, scaler.vars


def by_kind():
    return compose.Grouper(compose.Discard("kind", "shop") | preprocessing.StandardScaler(), by="kind")


def test_who_asks_leaves_nothing_in_groups():
    model = ForEachDocument(compose.Grouper(by_kind(), by="shop")) | PerceptronRanker()
    model.learn_one([{"kind": "a", "shop": "s", "size": size} for size in (1.0, 2.0)], [0, 1])
    for i in range(3):
        model.predict_one([{"kind": kind, "shop": shop, f"new {i}": 1.0} for kind in "ab" for shop in "st"])
    shops = model["ForEachDocument"].transformer.transformers
    assert (list(shops), list(shops["s"].transformers)) == (["s"], ["a"])
    assert shops["s"].transformers["a"]["StandardScaler"].vars == {"size": 0.25}


def test_groups_next_to_a_supervised_transformer_are_undone():
    both = by_kind() + feature_extraction.TargetAgg(by="kind", how=stats.Mean())
    model = ForEachDocument(both) | Refusing() | PerceptronRanker()
    model.learn_one([{"kind": "a", "size": 1.0}, {"kind": "a", "size": 2.0}], [0, 1])
    model["Refusing"].refuses = True
    with pytest.raises(ValueError, match="refused"):
        model.learn_one([{"kind": "a", "size": 1.0, "new": 1.0}, {"kind": "a", "size": 2.0}], [0, 1])
    groups = model["ForEachDocument"].transformer.transformers["Grouper"].transformers
    assert in_scaler(groups["a"]["StandardScaler"]) == ({"size": 2}, {"size": 1.5}, {"size": 0.25})


def test_the_end_of_an_iterator_inside_a_transformer_is_not_the_end_of_the_documents():
    positive = compose.FuncTransformer(lambda x: {"a": next(value for value in x.values() if value > 0.0)})
    model = ForEachDocument(positive) | PerceptronRanker()
    model.learn_one([{"a": 1.0}, {"a": 2.0}], [0, 1])
    with pytest.raises(ValueError, match="cannot take document 'y': it raised StopIteration"):
        model.rank_one({"x": {"a": 2.0}, "y": {"a": 0.0}, "z": {"a": 3.0}})


def test_a_panic_in_rust_names_the_document():
    not_a_number = compose.FuncTransformer(lambda x: {"a": x["a"] or float("nan")})
    lifted = ForEachDocument(not_a_number | preprocessing.RobustScaler())
    with pytest.raises(ValueError, match="cannot take document 0: called"):
        lifted.learn_one([{"a": 1.0}, {"a": 0.0}])
