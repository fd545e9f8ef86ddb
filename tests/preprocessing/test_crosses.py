import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import (
    BlendRanker,
    CrossFeatures,
    HashedFeatures,
    LossTracker,
    PerceptronRanker,
    PlackettLuce,
    RunFeatures,
    Runs,
    StreamScaler,
    SwapRanker,
    evaluate,
    load,
    save,
)
from online_rank.query import SparseRows, read_query

QUERY = {"a": {"x": 2.0, "y": 0.0}, "b": {"x": -1.0, "y": 3.0}}


def crossed(X, context, categories, numbers):
    """Feature dicts of an array, each feature once and once for each key, in plain loops."""
    made = []
    for row in X:
        features = {str(j + 1): value for j, value in enumerate(row)}
        for j, value in enumerate(row):
            for key in categories:
                if context[key] is not None:
                    features[f"{j + 1}*{key}={context[key]}"] = value
            for key in numbers:
                if context[key] is not None:
                    features[f"{j + 1}*{key}"] = value * context[key]
        made.append({name: value for name, value in features.items() if value})
    return made


def nonzero(documents):
    return [{name: value for name, value in x.items() if value} for x in documents]


def dicts_of(block):
    return nonzero([dict(zip(block.names, row, strict=True)) for row in block.X.toarray().tolist()])


def test_a_stream_without_any_context_raises_one_warning(recwarn):
    def told() -> list[str]:  # not what Python says about objects of other tests that it collects meanwhile
        return [str(each.message) for each in recwarn if issubclass(each.category, UserWarning)]

    model, grades = CrossFeatures("user", numbers="length") | PerceptronRanker(), {"a": 0, "b": 1}
    model.rank_one(QUERY)
    assert told() == []
    for _ in range(3):
        model.learn_one(QUERY, grades)
    assert ["nothing is crossed with 'user', 'length'" in each for each in told()] == [True]
    known = CrossFeatures("user") | PerceptronRanker()
    known.learn_one(QUERY, grades, context={"user": None})
    known.learn_one(QUERY, grades)
    assert len(told()) == 1


class TestColumns:
    def test_each_feature_once_and_once_joined(self):
        made = CrossFeatures(("user", "new"), numbers="length").transform_one(
            QUERY, context={"user": "ada", "new": True, "length": 3, "more": "ignored"}
        )
        assert made["a"] == {"x": 2.0, "x*user=ada": 2.0, "x*new=True": 2.0, "x*length": 6.0}
        assert made["b"]["y*length"] == 9.0
        assert made["b"]["x*user=ada"] == -1.0

    @given(st.integers(0, 2**32 - 1), st.sampled_from([None, "u", 7, False]), st.sampled_from([None, -2, 0.5]), st.booleans())
    @settings(max_examples=50)
    def test_any_query(self, seed, user, length, sparse):
        rng = np.random.default_rng(seed)
        X = rng.integers(-2, 3, (rng.integers(0, 5), 3)).astype(np.float32 if seed % 2 else np.float64)
        context = {"user": user, "length": length}
        step = CrossFeatures("user", numbers=("length",))
        given_X = X
        if sparse:
            from scipy.sparse import csr_array

            given_X = csr_array(X)
        block = step._transform_block(read_query(given_X, context=context))
        if user is None and length is None:
            # The caller's array, which is not copied.
            assert sparse or block.X.ctypes.data == given_X.ctypes.data
        else:
            assert dicts_of(block) == crossed(X.tolist(), context, ["user"], ["length"])

    def test_no_context_and_values_that_are_not_known_join_nothing(self):
        step = CrossFeatures("user")
        assert nonzero(step.transform_one(list(QUERY.values()))) == [{"x": 2.0}, {"x": -1.0, "y": 3.0}]
        assert nonzero(step.transform_one(list(QUERY.values()), context={"user": None})) == [{"x": 2.0}, {"x": -1.0, "y": 3.0}]

    def test_a_block_joins_each_query_with_its_own_context(self):
        X, qid = np.array([[1.0], [2.0], [3.0]]), [0, 0, 1]
        step = CrossFeatures("user")
        contexts = [{"user": "a"}, {"user": "b"}]
        made = dicts_of(step._transform_block(read_query(X, qid=qid, context=contexts)))
        assert made == [{"1": 1.0, "1*user=a": 1.0}, {"1": 2.0, "1*user=a": 2.0}, {"1": 3.0, "1*user=b": 3.0}]

    def test_many_columns_are_named_only_where_they_are_in_use(self):
        rows = SparseRows(np.array([0, 2]), np.array([3, 2**22 - 1], np.int32), np.array([1.0, 2.0]), 2**22)
        block = CrossFeatures("user")._transform_block(read_query(rows, context={"user": "a"}))
        assert block.names == ("4", "4194304", "4*user=a", "4194304*user=a")


class TestRefusals:
    @pytest.mark.parametrize(
        ("key", "numbers"),
        [(None, None), ((), ()), (("a", "a"), None), ("a", "a"), ("a=b", None), ("", None), (None, "a*b")],
    )
    def test_names(self, key, numbers):
        with pytest.raises(ValueError, match=r"key|numbers"):
            CrossFeatures(key, numbers=numbers)

    def test_a_name_is_a_text(self):
        with pytest.raises(TypeError, match="key is 3"):
            CrossFeatures(3)

    @pytest.mark.parametrize(
        ("context", "error", "message"),
        [
            ({"usr": "a", "length": 1}, ValueError, "context has no 'user'"),
            ({"user": 1.5, "length": 1}, TypeError, r"context\['user'\] is 1.5; it is a category"),
            ({"user": "a", "length": "long"}, TypeError, r"context\['length'\] is 'long'; it is a number"),
            ({"user": "a", "length": float("nan")}, ValueError, r"context\['length'\] is nan"),
            ({"user": ["a"], "length": 1}, TypeError, r"context\['user'\] is of type list"),
            ({1: "a"}, TypeError, "context has the name 1"),
            ("ada", TypeError, "context is of type str"),
            ({"user": "a" * 1001, "length": 1}, ValueError, "at most 1000"),
            ({"user": 2**63, "length": 1}, ValueError, "more than 64 bits"),
        ],
    )
    def test_contexts_are_refused_before_anything_is_learned(self, context, error, message):
        model = StreamScaler() | CrossFeatures("user", numbers="length") | PerceptronRanker()
        model.learn_one(QUERY, {"a": 0, "b": 2}, context={"user": "a", "length": 1})
        before = copy.deepcopy(model)
        with pytest.raises(error, match=message):
            model.learn_one(QUERY, {"a": 2, "b": 0}, context=context)
        assert model["StreamScaler"].means == before["StreamScaler"].means
        assert model["PerceptronRanker"].feature_names == before["PerceptronRanker"].feature_names

    @pytest.mark.parametrize("model", [PerceptronRanker(), StreamScaler() | PerceptronRanker()])
    @pytest.mark.parametrize(
        "ask",
        [
            lambda model: model.learn_one(QUERY, {"a": 0, "b": 2}, context={"user": "a"}),
            lambda model: model.rank_one(QUERY, context={"user": "a"}),
            lambda model: model.predict_one(QUERY, context={"user": "a"}),
            lambda model: model.show_one(QUERY, PlackettLuce(), context={"user": "a"}),
            lambda model: model.explain_one(QUERY, "a", "b", context={"user": "a"}),
            lambda model: model.predict_many(np.ones((2, 2)), [0, 0], context=[{"user": "a"}]),
            lambda model: model.learn_many(np.ones((2, 2)), [0, 1], [0, 0], context=[{"user": "a"}]),
        ],
    )
    def test_a_model_that_does_not_look_at_it(self, model, ask):
        with pytest.raises(TypeError, match=r"context: no step of .* uses the context"):
            ask(model)

    def test_a_member_of_a_blend(self):
        with pytest.raises(TypeError, match=r"rankers\[1\] uses the context of a query"):
            BlendRanker([PerceptronRanker(), CrossFeatures("user") | PerceptronRanker()])

    def test_one_context_a_query(self):
        model = CrossFeatures("user") | PerceptronRanker()
        with pytest.raises(ValueError, match="context has 1 entries, but the block has 2 queries"):
            model.learn_many(np.ones((2, 1)), [0, 1], [0, 1], context=[{"user": "a"}])
        with pytest.raises(TypeError, match=r"one \{name: value\} a query"):
            model.learn_many(np.ones((2, 1)), [0, 1], [0, 1], context={"user": "a"})

    def test_names_that_joined_columns_have(self):
        with pytest.raises(ValueError, match=r"a feature is called 'x\*user=a'"):
            CrossFeatures("user").transform_one({"d": {"x": 1.0, "x*user=a": 2.0}}, context={"user": "a"})

    def test_products_that_are_no_numbers(self):
        with pytest.raises(ValueError, match=r"feature 'x\*n' of document 'd' is inf"):
            CrossFeatures(numbers="n").transform_one({"d": {"x": 1e308}}, context={"n": 10})


class TestLearning:
    def test_shared_and_own_weights_equal_the_joined_features(self):
        model, twin = CrossFeatures("user") | PerceptronRanker(), PerceptronRanker()
        rng = np.random.default_rng(0)
        for t in range(40):
            X, y, user = rng.normal(size=(5, 2)), rng.integers(0, 3, 5).tolist(), "ab"[t % 2]
            model.learn_one(X, y, context={"user": user})
            twin.learn_one(crossed(X.tolist(), {"user": user}, ["user"], []), y)
        X = rng.normal(size=(5, 2))
        for user in ("a", "b", "never met", None):
            wanted = twin.predict_one(crossed(X.tolist(), {"user": user}, ["user"], []))
            assert model.predict_one(X, context={"user": user}) == pytest.approx(wanted, rel=1e-12)
        assert len(model["PerceptronRanker"].feature_names) == 2 + 2 * 2

    def test_blocks_are_the_loop(self):
        rng = np.random.default_rng(1)
        X, y, qid = rng.normal(size=(40, 3)), rng.integers(0, 3, 40), np.repeat(np.arange(8), 5)
        contexts = [{"user": int(rng.integers(3))} for _ in range(8)]
        one, many = (StreamScaler() | CrossFeatures("user") | PerceptronRanker() for _ in range(2))
        many.learn_many(X, y, qid, context=contexts)
        for t in range(8):
            one.learn_one(X[qid == t], y[qid == t], context=contexts[t])
        loop = [one.predict_one(X[qid == t], context=contexts[t]) for t in range(8)]
        assert many.predict_many(X, qid, context=contexts).tolist() == pytest.approx(np.concatenate(loop).tolist(), rel=1e-12)

    def test_clicks(self):
        model = CrossFeatures("user") | SwapRanker()
        wants = {"ada": "a", "bob": "b"}
        for t in range(300):
            user = ("ada", "bob")[t % 2]
            shown = model.show_one(QUERY, context={"user": user})
            model.learn_one(QUERY, shown.clicked([wants[user]]), context={"user": user})
        assert {user: model.rank_one(QUERY, context={"user": user})[0] for user in wants} == wants

    def test_behind_runs_and_before_hashing(self):
        model = RunFeatures() | CrossFeatures("language") | HashedFeatures(12) | PerceptronRanker()
        query = Runs({"bm25": [("a", 2.0), ("b", 1.0)], "vector": [("b", 0.9), ("a", 0.1)]})
        for _ in range(5):
            model.learn_one(query, {"a": 1, "b": 0}, context={"language": "en"})
            model.learn_one(query, {"a": 0, "b": 1}, context={"language": "de"})
        assert [model.rank_one(query, context={"language": language})[0] for language in ("en", "de")] == ["a", "b"]

    def test_a_file_continues_as_the_model(self, tmp_path):
        model = CrossFeatures("user", numbers=("n",)) | PerceptronRanker()
        model.learn_one(QUERY, {"a": 0, "b": 2}, context={"user": "ada", "n": 2})
        save(model, tmp_path / "model")
        again = load(tmp_path / "model")
        for each in (model, again):
            each.learn_one(QUERY, {"a": 2, "b": 0}, context={"user": "bob", "n": 1})
        context = {"user": "bob", "n": 3}
        assert again.predict_one(QUERY, context=context) == model.predict_one(QUERY, context=context)

    def test_new_values_stop_at_the_most_features(self):
        model = CrossFeatures("user") | PerceptronRanker()
        model["PerceptronRanker"].max_features = 4
        model.learn_one(QUERY, {"a": 0, "b": 2}, context={"user": "ada"})
        with pytest.warns(UserWarning, match="most features"):
            model.learn_one(QUERY, {"a": 2, "b": 0}, context={"user": "bob"})
        assert model["PerceptronRanker"].n_features == 4

    def test_explained_with_the_context(self):
        model = CrossFeatures("user") | PerceptronRanker()
        model.learn_one(QUERY, {"a": 0, "b": 2}, context={"user": "ada"})
        said = model.explain_one(QUERY, "b", "a", context={"user": "ada"})
        scores = model.predict_one(QUERY, context={"user": "ada"})
        assert said.difference == pytest.approx(scores["b"] - scores["a"])
        assert set(said.contributions) == {"x", "y", "x*user=ada", "y*user=ada"}


class TestMeasuring:
    def test_progressive_ranks_with_the_context(self):
        stream = [(QUERY, {"a": 2 * (t % 2), "b": 2 - 2 * (t % 2)}, {"context": {"user": t % 2}}) for t in range(40)]
        trace = evaluate.progressive(stream, CrossFeatures("user") | PerceptronRanker(), "ndcg")
        assert trace.values["ndcg"] > 0.95
        run = evaluate.progressive(stream, {name: CrossFeatures("user") | PerceptronRanker() for name in "ab"}, "ndcg")
        assert run.traces["a"].values == trace.values

    def test_certificates_hold_for_the_joined_features(self):
        tracked = LossTracker(PerceptronRanker(), {"u": {"x*user=a": 1.0, "x*user=b": -1.0}})
        model = CrossFeatures("user") | tracked
        rng = np.random.default_rng(3)
        for t in range(60):
            user = "ab"[t % 2]
            query = {i: {"x": float(value), "y": float(rng.normal())} for i, value in enumerate(rng.normal(size=6))}
            sign = 1.0 if user == "a" else -1.0
            model.learn_one(query, {i: int(sign * x["x"] > 0) for i, x in query.items()}, context={"user": user})
        certificate = model["LossTracker"].certificate()
        (comparator,) = certificate if isinstance(certificate, list) else [certificate]
        assert comparator.holds
        assert comparator.bounds
        assert comparator.norm == pytest.approx(2**0.5)
