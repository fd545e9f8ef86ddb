"""Half-lives in the time of queries."""

import numpy as np
import pytest

from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, RidgeRanker, StreamScaler, load, save
from online_rank.base.schema import declared_state
from online_rank.bounds import certificate_of
from online_rank.bounds.blends import blend_bound
from online_rank.storage.files import to_bytes
from online_rank.stream import group_rows
from online_rank.stream.synth import NoisyTeacher

DAY = 86400.0
QUERY = [[1.0, 0.0], [0.0, 1.0]]


def members():
    return [PerceptronRanker(half_life=0), PerceptronRanker(credit="spread")]


MAKERS = {
    "ridge": lambda half_life: RidgeRanker(half_life=half_life),
    "blend": lambda half_life: BlendRanker(members(), half_life=half_life),
}


def stream(n=60):
    """Queries, grades, and times that do not all rise."""
    rng = np.random.default_rng(3)
    at = 1.7e9 + np.cumsum(rng.exponential(DAY / 8, n)) * rng.choice([1.0, 0.999999], n)
    return [(x, y, float(t)) for (x, y), t in zip(NoisyTeacher(n_queries=n, n_features=4, n_documents=6), at, strict=True)]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_with_a_query_a_day_a_half_life_in_days_is_one_in_queries(make):
    by_day, by_query = make("5d"), make(5.0)
    # Nothing is learned from queries of a single grade, but time passes.
    for day, (x, y) in enumerate((x, y) for x, y, _ in stream() if len({*y}) > 1):
        by_day.learn_one(x, y, at=DAY * day)
        by_query.learn_one(x, y)
    x = stream()[0][0]
    assert by_day.predict_one(x) == pytest.approx(by_query.predict_one(x), rel=1e-12)


def test_the_equations_fade_by_hand():
    model = RidgeRanker(half_life="1d")
    # Centred and divided by the number of documents: moments of (-1/4, 1/4) and (1/4, -1/4) for the two orders of grades.
    model.learn_one(QUERY, [0, 1], at=0.0)
    moment = declared_state(model).moment.copy()
    model.learn_one(QUERY, [1, 0], at=2 * DAY)
    assert declared_state(model).moment == pytest.approx(0.25 * moment - moment)
    assert model._full_gram()[0] == pytest.approx(1.25 * 0.25)
    model.learn_one(QUERY, [1, 0], at=DAY)  # Late: as if it came now.
    assert declared_state(model).moment == pytest.approx(0.25 * moment - 2 * moment)
    assert declared_state(model).at == 2 * DAY


def test_losses_of_a_blend_fade_by_hand():
    model = BlendRanker(members(), half_life="12h")
    for at in (0.0, DAY, 1.5 * DAY):
        model.learn_one(QUERY, [0, 1], at=at)
    assert model.account.counted_weight == 1.0 + 0.5 * (1.0 + 0.25)
    model.learn_one(QUERY, [0, 1], at=100 * DAY)  # A pause counts as at most ten half-lives.
    assert model.account.counted_weight == 1.0 + (1.0 + 0.5 * 1.25) / 1024


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_many_at_once_and_a_saved_model_are_the_loop_bit_for_bit(make, tmp_path):
    queries = stream()
    loop, many = StreamScaler() | make("3h"), StreamScaler() | make("3h")
    for x, y, at in queries:
        loop.learn_one(x, y, at=at)
    X, y = np.concatenate([x for x, _, _ in queries]), np.concatenate([y for _, y, _ in queries])
    qid, times = np.repeat(np.arange(60), 6), np.array([at for _, _, at in queries])
    many.learn_many(X[:180], y[:180], qid[:180], at=times[:30])
    save(many, tmp_path / "model.npz")
    many = load(tmp_path / "model.npz")
    many.learn_many(X[180:], y[180:], qid[180:], at=times[30:])
    assert many.predict_many(X, qid).tobytes() == loop.predict_many(X, qid).tobytes()


def test_bounds_hold_for_losses_that_fade_unevenly():
    blend = BlendRanker(members(), half_life="2h")
    for x, y, at in stream(200):
        blend.learn_one(x, y, at=at)
        account = blend.account
        limit = blend_bound(
            best_loss=float(blend.candidate_losses.min()), prior_cost=np.log(len(blend.candidates)), step=blend.step,
            mixability_gap=account.mixability_gap, serving_gap=account.serving_gap + account.luck,
        )  # fmt: skip
        assert account.served <= limit + 1e-9
    assert "half-life" in str(certificate_of(blend))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_query_without_a_time_or_a_bad_one_changes_nothing(make, tmp_path):
    model = make("1h")
    model.learn_one(QUERY, [0, 1], at=5.0)
    save(model, tmp_path / "before.npz")
    for wrong, message in (
        ({}, "half_life is '1h': learn_one and learn_many need at="),
        ({"at": 1.7e11}, "times are dates of 1980 to 2100"),
        ({"at": float("nan")}, "at is nan; times are dates"),
        ({"at": [1.0, 2.0]}, "one time a query"),
    ):
        with pytest.raises(ValueError, match=message):
            model.learn_one(QUERY, [0, 1], **wrong)
    with pytest.raises(ValueError, match="at is today; times are dates"):
        model.learn_one(QUERY, [0, 1], at="today")
    save(model, tmp_path / "after.npz")
    assert (tmp_path / "after.npz").read_bytes() == (tmp_path / "before.npz").read_bytes()


@pytest.mark.parametrize(
    "make",
    [PerceptronRanker, AdditiveRanker, lambda: StreamScaler() | PerceptronRanker(), lambda: RidgeRanker(half_life=10)],
)
def test_a_time_that_nothing_uses_is_ignored(make):
    """A loop over `group_rows` with the times of its queries teaches every model."""
    rows = [({"q": q, "day": 20_000 + q, "price": float(p), "size": 1.0}, p > q) for q in range(3) for p in (1, 3)]
    timed, plain = make(), make()
    for x, y, more in group_rows(rows, "q", at="day"):
        timed.learn_one(x, y, **more)
        plain.learn_one(x, y)
        assert timed.predict_one(x, at=9.9) == plain.predict_one(x)
    assert to_bytes(timed) == to_bytes(plain)


def test_half_lives_are_numbers_or_spans_of_time():
    for text in ("soon", "0d", "-3h"):
        with pytest.raises(ValueError, match=r"half_life is .* such as 90s"):
            RidgeRanker(half_life=text)


def test_time_reaches_a_ranker_inside_others():
    inner = StreamScaler() | RidgeRanker(half_life="1d")
    model = StreamScaler() | BlendRanker([inner, PerceptronRanker()])
    assert model.abilities.takes_time
    model.learn_one(QUERY, [0, 1], at=7.0)
    assert model["BlendRanker"].learners[0]["RidgeRanker"]._at == 7.0
    with pytest.raises(ValueError, match="half_life is '1d': learn_one and learn_many need at="):
        model.learn_one(QUERY, [0, 1])
