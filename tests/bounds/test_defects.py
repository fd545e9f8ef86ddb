"""What an audit of certificates found: each said something about the wrong thing."""

import math

import numpy as np
import pytest

from online_rank import LossTracker, PerceptronRanker, StreamScaler
from online_rank.bounds.declaration import BOUNDS, bound
from online_rank.distributed.mixing import mix
from online_rank.feedback import PlackettLuce
from online_rank.rankers import ClickPerceptron


def queries(seed, n, d=3, m=5, scale=1.0):
    rng = np.random.default_rng(seed)
    teacher = rng.normal(size=d)
    for _ in range(n):
        X = rng.normal(size=(m, d))
        yield scale * X, np.digitize(X @ teacher + 0.5 * rng.normal(size=m), [0.0, 1.5])


def named(*documents):
    return {f"d{i}": document for i, document in enumerate(documents)}, {f"d{i}": int(i == 0) for i in range(len(documents))}


def mixed(*shards, u, **options):
    base = LossTracker(PerceptronRanker("ndcg", credit="spread", half_life=0), {"u": u}, **options)
    models = []
    for shard in shards:
        model = base.clone()
        for x, y in shard:
            model.learn_one(x, y)
        models.append(model)
    return mix(models, base=base)


def test_a_second_bound_of_one_name_is_refused():
    before = BOUNDS["mass_bound"]
    with pytest.raises(ValueError, match=r"mass_bound is a bound of online_rank\.bounds\.mass already"):

        @bound("F", of=PerceptronRanker)
        def mass_bound(*, comparator_loss: float) -> float:
            return comparator_loss

    assert BOUNDS["mass_bound"] is before


def test_an_idle_machine_does_not_set_comparators_to_zero():
    """The comparators took the scale of the last machine, 0 for features it had not met: norm 0, VIOLATED."""
    work = [named({"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0})] * 3
    for shards in ([work, []], [[], work]):
        certificate = mixed(*shards, u={"a": 1.0, "b": -1.0}).certificate()
        assert certificate.norm == pytest.approx(math.sqrt(2.0))
        assert certificate.holds


def test_the_order_of_machines_changes_no_certificate():
    both = [named({"a": 1.0, "b": -1.0}, {"a": -1.0, "b": 1.0})] * 2
    only_a = [named({"a": 1.0}, {"a": -1.0})] * 2
    values = [
        [(check.name, check.value) for check in mixed(*shards, u={"a": 0.5, "b": -2.0}).certificate().bounds]
        for shards in ([both, only_a], [only_a, both])
    ]
    assert [name for name, _ in values[0]] == [name for name, _ in values[1]]
    assert [value for _, value in values[0]] == pytest.approx([value for _, value in values[1]])


def test_a_loss_is_called_the_served_rankings_only_where_it_is():
    """Behind a scaler the average was judged on other features than it had answered on."""
    pipeline = StreamScaler() | LossTracker(PerceptronRanker(served="average"), {"u": np.ones(3)}, measure_served=True)
    for t, (X, y) in enumerate(queries(2, 100)):
        pipeline.learn_one(X * [1.0, 100.0 ** (t // 25 % 2), 1.0], y)
    certificate = pipeline["LossTracker"].certificate()
    totals = certificate.totals
    assert totals["served_loss"] != pytest.approx(totals["loss"])
    assert "served rankings:" not in str(certificate)
    assert f"loss of served rankings  {totals['served_loss']:,.6g} (no bound covers it)" in str(certificate)
    # Where both totals agree, it is.
    alone = LossTracker(PerceptronRanker(half_life=0), {"u": np.ones(3)})
    for X, y in queries(2, 20):
        alone.learn_one(X, y)
    assert "(of the served rankings: limited by the bounds)" in str(alone.certificate())
    assert "no bound covers it" not in str(alone.certificate())


def test_one_query_with_served_scores_does_not_relabel_the_run():
    tracker = LossTracker(PerceptronRanker(), {"u": np.ones(3)})
    for t, (X, y) in enumerate(queries(3, 50)):
        tracker.learn_one(X, y, **({"served": np.zeros(len(y))} if t == 7 else {}))
    text = str(tracker.certificate())
    assert "of the scores that decided the updates, 1 of them given as served" in text
    assert "(of the served rankings" not in text


@pytest.mark.parametrize(("half_life", "scaled"), [(None, False), (20.0, False), (0, True)])
def test_delay_is_certified_only_for_the_learning_weights_on_the_features_of_the_update(half_life, scaled):
    tracker = LossTracker(PerceptronRanker(half_life=half_life), {"u": np.ones(3)})
    model = StreamScaler() | tracker if scaled else tracker
    for X, y in queries(4, 30):
        model.learn_one(X, y, served=model.predict_one(X))
    certificate = tracker.certificate(delay=0)
    assert "delay_bound" not in [check.name for check in certificate.bounds]
    reason = "transformers that learn" if scaled else "half_life=0"
    assert reason in certificate.not_covered["delay_bound"]
    assert certificate.holds


def test_raw_timestamps_are_not_violations():
    """Scores of 1e12 and more: rounding of a pair is of the size of ||u|| R_X, which V of them add up."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        # The loss is V, and all margins are below 1, so that the hindsight form is V too, up to rounding.
        tracker = LossTracker(PerceptronRanker(credit="spread"), {"u": 0.01 * rng.normal(size=3)})
        for t in range(40):
            X = rng.normal(size=(6, 3))
            X[:, 0] = 1.7e12 + 1000.0 * t
            tracker.learn_one(X, rng.integers(0, 3, 6))
        assert all(check.verdict != "VIOLATED" for check in tracker.certificate().bounds), seed


def test_raw_comparators_of_machines_are_no_single_comparator():
    """With at most one query a shard no path was seen, and a data bound for one comparator was printed."""
    u = np.array([2.0, -1.0, 0.5])
    base = StreamScaler() | LossTracker(PerceptronRanker("ndcg", credit="spread"), {"u": u}, raw=True)
    shards = []
    for seed in range(3):
        model = base.clone()
        for X, y in queries(seed, 1, scale=10.0**seed):
            model.learn_one(X, y)
        shards.append(model)
    certificate = mix(shards, base=base)["LossTracker"].certificate()
    assert [check.name for check in certificate.bounds] == ["master_bound"]
    assert certificate.holds


def test_an_estimate_from_clicks_is_not_called_a_loss():
    tracker = LossTracker(ClickPerceptron(PlackettLuce(k=2)), {"u": np.ones(2)})
    shown = tracker.show_one(np.eye(2))
    tracker.learn_one(np.eye(2), shown.clicked([shown.order[1]]))
    text = str(tracker.certificate())
    assert "estimated cost" in text
    assert "cumulative loss" not in text


def test_the_report_says_what_the_certificate_says():
    """The page printed VIOLATED where the certificate said that rounding leaves it undecided."""
    from online_rank.bounds.certificate import BoundCheck, Certificate
    from online_rank.cli.report import _certified

    check = BoundCheck("mass_hindsight_bound", "F(u) + <u, w>", 1.0, -5e-5, "undecided by rounding", True)
    totals = {"n_rounds": 1, "n_mistakes": 1, "n_skipped": 0, "loss": 1.00005, "served_loss": math.nan, "mass": 1.0}
    page = _certified(Certificate("u", {}, totals, {"comparator_loss": 1.0, "norm": 1.0}, (check,), {}))
    assert "undecided by rounding, says nothing" in page
    assert "VIOLATED" not in page
