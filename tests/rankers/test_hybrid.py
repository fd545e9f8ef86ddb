import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import PerceptronRanker, RunFeatures, Runs, hybrid
from online_rank.base import ranker_of
from online_rank.measures.learned import measure
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.rules import rule_weights
from online_rank.storage.files import from_bytes, to_bytes
from tests.reference import fusion

NAMES = ["bm25", "vector"]


def random_query(rng):
    lists = {}
    for name in NAMES:
        size = int(rng.integers(1, 9))
        lists[name] = dict(zip(rng.permutation(10)[:size].tolist(), rng.normal(size=size).tolist(), strict=True))
    return Runs(lists)


@pytest.mark.first(1)
@pytest.mark.parametrize("engine", fusion.ENGINES)
def test_before_any_feedback_it_ranks_as_the_engine(engine):
    today, options, oracle, distinct = fusion.ENGINES[engine]
    rng = np.random.default_rng(2)
    for _ in range(100):
        lists, weights = fusion.random_lists(rng, distinct=distinct)
        model = hybrid([*lists], today=today, weights=weights, **options)
        begun = RunFeatures([*lists], **options) | PerceptronRanker.from_rule(today, [*lists], weights=weights)
        assert model.rank_one(Runs(lists)) == begun.rank_one(Runs(lists)) == oracle(lists, weights)


def test_one_document_and_none():
    model = hybrid(NAMES)
    assert model.rank_one(Runs({"bm25": [("a", -2.0)], "vector": []})) == ["a"]
    assert model.rank_one(Runs({"bm25": []})) == model.rank_one(Runs({})) == []
    model.learn_one(Runs({"bm25": []}), {})


@pytest.mark.parametrize("weights", [None, [0.3, 0.7]])
def test_before_any_feedback_z_scores_rank(weights):
    model = hybrid(NAMES, today="zscore", weights=weights)
    rule = RunFeatures(NAMES, parts=("zscore",)) | FixedRanker(rule_weights("zscore", NAMES, weights))
    rng = np.random.default_rng(2)
    for _ in range(30):
        query = random_query(rng)
        by_rule = rule.predict_one(query)
        assert [round(by_rule[d], 9) for d in model.rank_one(query)] == sorted(
            (round(s, 9) for s in by_rule.values()), reverse=True
        )


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.sampled_from(["rrf", "minmax"]))
def test_what_is_served_is_certified_against_the_rule(seed, today):
    # For any grades, served <= the rule's loss + ln 2 / eta + Delta + G; the rule's loss counted by another program.
    rng, model = np.random.default_rng(seed), hybrid(NAMES, today=today)
    rule = RunFeatures(NAMES) | FixedRanker(rule_weights(today, NAMES))
    lost, of = 0.0, measure("ndcg@10")
    for _ in range(15):
        query = random_query(rng)
        by_rule = rule.predict_one(query)
        # Grades against the rule, or by chance.
        worst = sorted(by_rule, key=by_rule.__getitem__)
        grades = {d: int(d in worst[:2]) if rng.random() < 0.5 else int(rng.integers(3)) for d in by_rule}
        if len(set(grades.values())) > 1:
            lost += of.loss(list(by_rule.values()), list(grades.values()), ties="pessimistic")
        model.learn_one(query, grades)
    blend = ranker_of(model)
    account = blend.account
    assert account.served <= lost + np.log(2.0) / blend.step + account.mixability_gap + account.served - account.mixed + 1e-9


def test_it_learns_what_the_rule_does_not_know():
    model, today, rng = hybrid(NAMES), hybrid(NAMES), np.random.default_rng(5)
    hits, by_rule = [], []
    for _ in range(60):
        query = random_query(rng)
        scores = {d: x["vector"].score for d, x in query.documents.items() if "vector" in x}
        best = max(scores, key=scores.__getitem__)
        hits.append(model.rank_one(query)[0] == best)
        by_rule.append(today.rank_one(query)[0] == best)
        model.learn_one(query, {d: int(d == best) for d in query.ids})
    assert np.mean(by_rule) < 0.7
    assert np.mean(hits[-20:]) >= 0.9
    again = from_bytes(to_bytes(model))
    assert again.predict_one(query) == model.predict_one(query)


@pytest.mark.parametrize(("arguments", "message"), [((["a", "a"], "rrf"), "runs"), ((NAMES, "borda"), "today is 'borda'")])
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        hybrid(arguments[0], today=arguments[1])


@pytest.mark.parametrize("runs", ["bm25", {"bm25": 0.3, "vector": 0.7}, Runs({"bm25": {"a": 1.0}}), None])
def test_names_of_retrievers_are_a_list(runs):
    with pytest.raises(TypeError, match=r"runs is .*it must be a list of different names of retrievers"):
        hybrid(runs)


def test_several_queries_and_bare_dicts_are_distinguished_from_a_query():
    model, lists, grades = hybrid(["bm25", "vector"]), {"bm25": {"a": 2.0, "b": 1.0}, "vector": {"b": 1.0}}, {"a": 0, "b": 1}
    queries = [Runs(lists), Runs(lists)]
    for call in (lambda: model.learn_many(queries, [grades, grades], [0, 1]), lambda: model.rank_one(queries)):
        with pytest.raises(TypeError, match=r"x is a list of 2 Runs, each of them a query; give one at a time: learn_one"):
            call()
    with pytest.raises(ValueError, match=r"y grades 'a', which is a feature in x and no document.*Runs\(x\)"):
        model.learn_one(lists, grades)
    with pytest.raises(ValueError, match=r"give lists of retrievers as Runs"):
        model.rank_one(lists)
    with pytest.raises(TypeError, match=r"x\['bm25'\] is of type list.*lists of retrievers are a query as Runs\(x\)"):
        model.rank_one({"bm25": [("a", 2.0), ("b", 1.0)]})


class TestFixedRanker:
    def test_it_learns_nothing_and_measures_its_loss(self):
        model = FixedRanker({"x": 1.0}, measure="ap")
        for _ in range(3):
            model.learn_one({"a": {"x": 2.0}, "b": {"x": 1.0, "y": 9.0}}, {"a": 0, "b": 1})
        assert model.predict_one({"a": {"x": 2.0}, "b": {"y": 9.0}}) == {"a": 2.0, "b": 0.0}
        assert model.last_round.loss == 1 - 1 / 2

    @pytest.mark.parametrize("grades", [[1, 1], [0, 0]])
    def test_queries_of_one_grade_are_skipped(self, grades):
        model = FixedRanker({"x": 1.0})
        model.learn_one([{"x": 1.0}, {"x": 2.0}], grades)
        assert model.last_round.skipped
        assert model.last_round.loss == 0.0

    def test_sparse_and_dense_queries_count_alike(self):
        many = [{f"f{i}": float(i) for i in range(j, 2000, 400)} for j in range(5)]
        weights = {f"f{i}": 1.0 / (i + 1) for i in range(2000)}
        model = FixedRanker(weights)
        assert model.predict_one(many) == pytest.approx([sum(v * weights[f] for f, v in x.items()) for x in many])

    def test_weights_by_position(self):
        assert FixedRanker((1.0, -1.0)).predict_one([[3.0, 1.0], [0.0, 5.0]]) == [2.0, -5.0]

    @pytest.mark.parametrize("weights", [{}, (), {"x": np.nan}, {"x": "1"}, None, 1.0])
    def test_bad_weights_are_refused(self, weights):
        with pytest.raises((TypeError, ValueError), match="weights"):
            FixedRanker(weights)

    def test_bad_queries_change_nothing(self):
        model = FixedRanker({"x": 1.0})
        model.learn_one([{"x": 1.0}, {"x": 2.0}], [0, 1])
        before = repr(model.last_round)
        for x, y, w in (([{"x": np.inf}], [1], 1.0), ([{"x": 1.0}], [-1], 1.0), ([{"x": 1.0}], [1], -1.0)):
            with pytest.raises(ValueError, match=r"x|y|w"):
                model.learn_one(x, y, w)
        assert repr(model.last_round) == before


def test_a_perceptron_begun_with_the_rule_is_a_member():
    assert isinstance(ranker_of(hybrid(NAMES)).learners[1], PerceptronRanker)
