"""Every class that may stand in a file declares its state, and what it declares is what a trained instance has."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from river import base, compose, feature_extraction, preprocessing, stats, utils

import online_rank
import online_rank.preprocessing
from online_rank import PerceptronRanker
from online_rank.base import Columns, RankingPipeline
from online_rank.base.kinds import Kinds
from online_rank.base.schema import (
    Array,
    Count,
    Derived,
    ListOf,
    Names,
    Nested,
    Plain,
    Real,
    Schema,
    StateError,
    declared_state,
    settings_names,
)
from online_rank.bounds import LossTracker
from online_rank.evaluate import Trace
from online_rank.metrics import NDCG, OffPolicyValue, RandomRanking, SwapComparison, TeamDraft, metric
from online_rank.preprocessing._columns import StatelessTransformer
from online_rank.rankers.click_words import ClickWords
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.frozen import FrozenRanker
from online_rank.serving import Challenge, FeedbackPlan, PendingQueries, RankingService
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.objects import class_of, name_of, schema
from online_rank.storage.river_classes import RIVER
from online_rank.stream.clicks import user
from online_rank.support import registry
from tests.helpers import give, let_wait, mismatches
from tests.models import BASES, STUMP, arguments_of

#: Listed classes that may not stand in files, each with the reason.
NOT_SAVED = {
    "CheckpointError": "an error",
    "Clicks": "a value for JSON",
    "Drafted": "a value for JSON",
    "Impression": "a value for JSON",
    "ModelFileError": "an error",
    "PairwiseRanker": "it holds any river classifier",
    "PointwiseRanker": "it holds any river classifier or regressor",
    "QueryFunction": "it holds any Python function",
    "QueryStep": "a base class",
    "Ranker": "a base class",
    "RankingMetric": "a base class",
    "Retrained": "it holds any learner",
    "Runs": "a query",
    "TorchRanker": "it holds any module of torch",
    "Vectors": "a query",
}


def blocks(n, d, seed=3):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(5, d)), rng.integers(0, 3, 5)) for _ in range(n)]


def teach(model, named=False, n=12, d=3):
    """Let anything that learns learn a little."""
    for X, y in blocks(n, d):
        x = [{f"f{j}": v for j, v in enumerate(row)} for row in X.tolist()] if named else X
        model.learn_one(x, y)
    return model


def service():
    made = RankingService(teach(online_rank.StreamScaler() | online_rank.PerceptronRanker(), named=True))
    for i in range(4):
        made.handle(b'{"id": %d, "docs": {"a": {"f0": 1.5}, "b": {"f1": 2}}}' % i)
    made.handle(b'{"id": 2, "grades": {"a": 1, "b": 0}}')
    return made


def clicks_service():
    made = RankingService(teach(online_rank.StreamScaler() | online_rank.SwapRanker(), named=True))
    for i in range(4):
        made.handle(b'{"id": %d, "docs": {"a": {"f0": 1.5}, "b": {"f1": 2}}}' % i)
    made.handle(b'{"id": 2, "clicks": ["a"]}')
    return made


def shown_and_clicked(model):
    """A model that has shown rankings and met clicks on them."""
    for X, _ in blocks(6, 3):
        shown = model.show_one(X)
        clicks = shown.clicked(shown.order[:1])
        model.update(clicks) if isinstance(model, TeamDraft) else model.learn_one(X, clicks)
    return model


def position_bias():
    made = online_rank.PositionBias(k=4)
    for X, _ in blocks(6, 3):
        shown = online_rank.PlackettLuce(k=4).show(X[:, 0], 0)
        made.update(shown.clicked(shown.order[1:2]))
    return made


def judged_from_a_log(made, *rankings):
    """What judges rankers from a log of clicks, after some impressions."""
    policy = online_rank.PlackettLuce(k=3, seed=1)
    for draw in range(6):
        shown = policy.show({"a": 0.5, "b": 0.0, "c": 1.0}, draw)
        made.update(shown.clicked(shown.order[:1]), *rankings)
    return made


def pending():
    made = PendingQueries(max_bytes=2)
    for i in range(3):
        let_wait(made, i, ("{}", [0.5], None), 1)
    return made


def gathering():
    made = PendingQueries(plan=FeedbackPlan(window=10, events={"click": 1}, total="sum"))
    let_wait(made, "q", ("{}", [0.5], None), at=3)
    give(made, "q", {"a": 1}, 4, "click")
    give(made, "r", {"a": 1}, 5, ungraded="skip")
    return made


def growing_trees():
    model = teach(online_rank.AdditiveRanker(trees=50))
    return declared_state(model).trees


def vectors(model):
    """A model that has learned vectors, of queries and without one."""
    rng = np.random.default_rng(0)
    for i in range(12):
        x = {f"d{i}": {"embedding": rng.normal(size=3).tolist()} for i in range(5)}
        context = {"embedding": [1.0, 2.0, 3.0]} if i % 2 else None
        context = {"user": f"u{i % 3}"} if type(model).__name__ == "Tastes" else context
        model.learn_one(x, dict(zip(x, [0, 1, 2, 1, 0], strict=True)), context=context)
    return model


def trace():
    from online_rank.evaluate import progressive

    return progressive(blocks(20, 3), online_rank.PerceptronRanker(), "ndcg")


def measured(name):
    made = metric(name)
    for i in range(5):
        made.update([0, 1, 2], [0.1 * i, 0.2, 0.3], 0.3)
    return made


#: Trained instances of the classes that need more than their constructor's defaults and `learn_one`.
def words():
    model = online_rank.AdditiveRanker(trees=0, kinds={"title": "text"})
    model.learn_one([{"title": "red shoe"}, {"title": "hat"}], [1, 0])
    return declared_state(model).words


def click_words():
    made = ClickWords()
    for keys in ([7, 7, 9], [7, 11], [-3, 9]) * 20:
        made.meet(np.array(keys))
    made.give(made.wanted(2), 0)
    made.follow(np.array([0.5, -1.0]))
    return made


def kinds():
    made = Kinds()
    return made.learned({"brand": made.seen("brand", ["acme", "best"])})


MADE = {
    "DeclaredFeatures": [
        lambda: teach(online_rank.DeclaredFeatures(["f0", "f1", "f2"])),
        lambda: teach(online_rank.DeclaredFeatures(["f0", "f1", "f2"]), named=True),
    ],
    "FixedRanker": [lambda: FixedRanker({"clicks": 1.0}), lambda: FixedRanker((1.0, 2.0), measure="ap")],
    "FixedTrees": [lambda: online_rank.FixedTrees(STUMP), lambda: online_rank.FixedTrees(STUMP, names=("x",), measure="ap")],
    "DCG": [lambda: measured("dcg@5")],
    "ERR": [lambda: measured("err@5")],
    "HitRate": [lambda: measured("hit_rate@3")],
    "LinearNDCG": [lambda: measured("linear_ndcg")],
    "MAP": [lambda: measured("map>=2")],
    "MRR": [lambda: measured("mrr")],
    "NDCG": [lambda: measured("ndcg@3")],
    "QueryUnion": [lambda: teach(online_rank.StreamScaler() + online_rank.QueryNormalizer())],
    "RandomRanking": [lambda: measured(RandomRanking("map"))],
    "RecallAtK": [lambda: measured("recall@3")],
    "PairwiseAccuracy": [lambda: measured("pairwise_accuracy")],
    "PrecisionAtK": [lambda: measured("p@2")],
    "Challenge": [lambda: Challenge(teach(online_rank.PerceptronRanker()), origin="f00", promote_at=0.95)],
    "FeedbackPlan": [FeedbackPlan, lambda: FeedbackPlan(window=60.0, events={"click": 1}, ungraded="skip")],
    "PendingQueries": [pending, gathering],
    "ClickPerceptron": [
        lambda: shown_and_clicked(online_rank.ClickPerceptron()),
        lambda: shown_and_clicked(online_rank.ClickPerceptron(credit="propensity", examination=(1.0,) * 5)),
    ],
    "ClickWords": [click_words],
    "AdditiveRanker": [
        lambda: teach(online_rank.AdditiveRanker()),
        lambda: teach(online_rank.AdditiveRanker(), named=True),
        lambda: vectors(online_rank.AdditiveRanker()),
    ],
    "BayesianUser": [lambda: user("dbn")],
    "BilinearLearner": [lambda: vectors(online_rank.VectorRanker())._learner],
    "BrowsingUser": [lambda: user("ubm")],
    "CascadeUser": [lambda: user("perfect")],
    "DependentUser": [lambda: user("dependent")],
    "FairPairs": [online_rank.FairPairs],
    "FrozenRanker": [
        lambda: shown_and_clicked(FrozenRanker(teach(PerceptronRanker()), policy=online_rank.PlackettLuce(k=3))),
        lambda: teach(FrozenRanker(teach(online_rank.StreamScaler() | PerceptronRanker(), named=True)), named=True),
    ],
    "Greedy": [online_rank.Greedy],
    "GrowingTrees": [growing_trees],
    "Kinds": [kinds],
    "Words": [words],
    "OffPolicyValue": [lambda: judged_from_a_log(OffPolicyValue((0.75, 0.25)), ["c", "a", "b"])],
    "PlackettLuce": [online_rank.PlackettLuce],
    "PositionBias": [position_bias],
    "PositionUser": [lambda: user("position2")],
    "RankingService": [service, clicks_service],
    "SatisfiedUser": [lambda: user("satisfied")],
    "Surrogate": [online_rank.surrogates.listnet, lambda: online_rank.surrogates.lambdarank("ap")],
    "SwapComparison": [lambda: judged_from_a_log(SwapComparison(k=3), ["a", "b", "c"], ["c", "b", "a"])],
    "SwapRanker": [
        lambda: shown_and_clicked(online_rank.SwapRanker()),
        lambda: teach(online_rank.SwapRanker(online_rank.FairPairs(k=3)), named=True),
    ],
    "TeamDraft": [
        lambda: shown_and_clicked(TeamDraft(teach(online_rank.SwapRanker()), teach(online_rank.PerceptronRanker()), k=3))
    ],
    "Trace": [trace],
    "TrustUser": [lambda: user("trust", max_grade=4)],
    "Tastes": [lambda: vectors(online_rank.Tastes())],
    "VectorColumns": [lambda: declared_state(vectors(online_rank.AdditiveRanker())).vectors],
    "VectorFeatures": [lambda: vectors(online_rank.VectorFeatures())],
    "VectorRanker": [lambda: vectors(online_rank.VectorRanker()), lambda: vectors(online_rank.VectorRanker(half_life=0))],
    "RankingPipeline": [lambda: teach(online_rank.StreamScaler() | online_rank.PerceptronRanker())],
}


def instances(cls):
    """Trained instances of a class, over arrays and over named features."""
    if cls.__name__ in MADE:
        return [make() for make in MADE[cls.__name__]]
    return [teach(cls(**given), named) for named in (False, True) for given in arguments_of(cls)]


def kept(model):
    """Names of the attributes of an object that are not derived: those may be made when they are first needed."""
    return {name for name in vars(model) if not isinstance(schema(type(model)).get(name), Derived)}


def storable():
    return sorted(name for name in registry.classes() if name not in NOT_SAVED and name != "Round")


@pytest.mark.parametrize("name", storable())
def test_the_declaration_is_what_a_trained_instance_has(name):
    cls = class_of(name, "here")
    for model in instances(cls):
        if not isinstance(model, tuple):
            assert mismatches(model) == []
        content = to_bytes(model)
        again = from_bytes(content)
        assert to_bytes(again) == content
        assert again == model if isinstance(model, tuple) else kept(again) == kept(model)


def test_every_public_class_with_state_is_listed_or_says_why_not():
    missing = []
    for info in pkgutil.walk_packages(online_rank.__path__, "online_rank."):
        if info.name.startswith(("online_rank.cli", "online_rank._", "online_rank.__main__")):
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # an extra that is not installed
            continue
        for name, cls in vars(module).items():
            if name.startswith("_") or getattr(cls, "__module__", None) != info.name:
                continue
            if not (inspect.isclass(cls) and issubclass(cls, base.Base)) or inspect.isabstract(cls) or cls in BASES:
                continue
            if name not in NOT_SAVED and name_of(cls) is None:
                missing.append(f"{info.name}.{name}")
    assert missing == []


def test_every_listed_class_exists():
    for name in (*registry.classes(), *RIVER):
        if name not in NOT_SAVED:
            assert inspect.isclass(class_of(name, "here"))


RIVER_MADE = [
    lambda: compose.Discard("a"),
    lambda: compose.Select("a", "b"),
    lambda: compose.Prefixer("p_"),
    lambda: compose.Suffixer("_s"),
    lambda: compose.Renamer({"a": "z"}),
    lambda: preprocessing.StandardScaler() | preprocessing.MinMaxScaler(),
    lambda: preprocessing.StandardScaler() + preprocessing.MinMaxScaler(),
    lambda: feature_extraction.PolynomialExtender(),
    lambda: preprocessing.FeatureHasher(8, seed=1),
    lambda: preprocessing.MaxAbsScaler(),
    lambda: preprocessing.StandardScaler(),
    lambda: stats.AbsMax(),
    lambda: stats.Max(),
    lambda: stats.Min(),
    lambda: utils.Rolling(NDCG, 3),
]


@pytest.mark.parametrize("make", RIVER_MADE, ids=lambda make: type(make()).__name__)
def test_the_declaration_of_a_class_of_river_is_what_a_trained_instance_has(make):
    model = make()
    for i in range(250):
        if hasattr(model, "learn_one"):
            model.learn_one({"a": 1.0 + i, "b": 2.0})
        else:
            model.update(*([0, 1], [1.0, float(i)]) if isinstance(model, utils.Rolling) else (float(i % 7),))
    content = to_bytes(model)
    again = from_bytes(content)
    assert to_bytes(again) == content
    assert kept(again) == kept(model)


class Forgetful(online_rank.StreamScaler):
    def __init__(self, with_std=True):
        super().__init__(with_std)
        self._extra = 1


def test_an_undeclared_attribute_is_named():
    assert mismatches(Forgetful()) == ["Forgetful._extra is neither a setting nor declared in _schema"]
    scaler = online_rank.StreamScaler()
    scaler._extra = 1
    with pytest.raises(TypeError, match="StreamScaler does not declare its attribute '_extra'"):
        to_bytes(scaler)


class Halved(StatelessTransformer):
    def _transform(self, X, offsets, out):
        out[:] = X / 2.0
        return len(offsets) - 1


def test_a_class_without_a_constructor_has_no_settings_and_can_be_saved(monkeypatch):
    monkeypatch.setitem(registry.classes(), "Halved", "preprocessing")
    monkeypatch.setattr(online_rank.preprocessing, "Halved", Halved, raising=False)
    assert settings_names(Halved) == ()
    assert settings_names(RankingPipeline) == ("steps",)
    model = Halved() | PerceptronRanker()
    model.learn_one([[2.0], [4.0]], [1, 0])
    again = from_bytes(to_bytes(model))
    assert again.transform_one(np.array([[2.0], [4.0]])).tolist() == [[1.0], [2.0]]
    assert again.predict_one([[2.0], [4.0]]) == model.predict_one([[2.0], [4.0]])


def test_a_state_that_does_not_match_is_named_before_a_file_is_written():
    scaler = teach(online_rank.StreamScaler())
    scaler._m2[1] = -1.0
    assert mismatches(scaler) == ["StreamScaler._m2 has entries outside 0 to inf"]
    with pytest.raises(TypeError, match="_m2 has entries outside 0 to inf"):
        to_bytes(scaler)


class Holder:
    _schema = Schema(_n_features=Count(), _rows=Array("d", 2, spare=True), _config=Derived())

    def __init__(self, n, room):
        self._n_features, self._rows, self._config = n, np.zeros((room, 2)), 1


def test_spare_room_is_allowed_in_memory_and_neither_saved_nor_loaded():
    holder = Holder(2, 5)
    assert mismatches(holder) == []
    field = Holder._schema["_rows"]
    assert field.trim(holder._rows, holder).shape == (2, 2)
    with pytest.raises(StateError, match=r"should be an array float64 \(2, 2\)"):
        field.check(np.zeros((1, 2)), "_rows", holder)
    with pytest.raises(StateError, match=r"should be an array float64 \(2, 2\)"):
        # A file with more rows in one array than in others was an attack on the kernels that take them to be the same.
        field.check(holder._rows, "_rows", holder)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (Array(2), np.zeros(3), r"float64 \(2,\), not float64 \(3,\)"),
        (Array(2), np.zeros(2, np.float32), "not float32"),
        (Array(2), np.zeros((2, 1)), "not float64"),
        (Array(2), [0.0, 0.0], "not list"),
        (Array(2), None, "not NoneType"),
        (Array(2), np.array([0.0, np.nan]), "not finite"),
        (Array(2), np.array([0.0, np.inf]), "not finite"),
        (Array(2, low=0.0), np.array([0.0, -1e-300]), "outside 0 to inf"),
        (Array(None, dtype="int64", high=3), np.array([4]), "outside -inf to 3"),
        (Count(), -1, "integer from 0"),
        (Count(), True, "integer from 0"),
        (Count(), 1.0, "integer from 0"),
        (Count(), 2**53 + 1, "integer from 0"),
        (Real(), np.nan, "number"),
        (Real(), np.inf, "number"),
        (Real(), "1", "number"),
        (Plain(), [1], "string or a number"),
        (Plain(), 2**70, "at most 64 bits"),
        (Names(), Columns(["a"]), "one name for each of 2"),
        (Names(), Columns(["a", b"b"]), "string or a number"),
        (Names(), ["a", "b"], "one name for each"),
        (Nested("Ranker"), 3, "should be a Ranker"),
        (ListOf(Count(), 2), [1, 2, 3], "list of 2"),
        (ListOf(Count(), 2), [1, "x"], r"\[1\] should be an integer"),
    ],
)
def test_fields_name_what_does_not_match(field, value, message):
    with pytest.raises(StateError, match=message):
        field.check(value, "x", Holder(2, 2))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: LossTracker(PerceptronRanker(), {"first": {"a": 1.0}}), "_served"),
        (lambda: LossTracker(PerceptronRanker(), {"first": {"a": 1.0}}), "_paired"),
        (Trace, "_served"),
        (lambda: RankingService(PerceptronRanker()), "_served"),
    ],
)
def test_the_sums_of_an_interval_are_not_negative(make, name):
    """With -1 losses so far the next one divides by 0."""
    model = make()
    assert not mismatches(model)
    sums = np.zeros_like(getattr(model, name))
    sums[..., 0] = -1.0
    setattr(model, name, sums)
    assert f"{name} has entries outside 0 to inf" in mismatches(model)[0]
