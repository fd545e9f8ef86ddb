"""BestRanker: who is the best, who learns, and that it stays a ranker."""

import copy
import json
import pickle
from typing import ClassVar

import numpy as np
import pytest
from river import linear_model

from online_rank import (
    BestRanker,
    GradientRanker,
    PairwiseRanker,
    PerceptronRanker,
    PointwiseRanker,
    StreamScaler,
    load,
    measure,
    save,
)
from online_rank.feedback import Impression
from online_rank.intervals import LossInterval
from online_rank.serving import Challenge, RankingService
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream.synth import NoisyTeacher


def queries(n=60, seed=0):
    return list(NoisyTeacher(n, n_features=5, n_documents=(6, 12), grade_shares=(0.7, 0.2, 0.1), seed=seed))


def rankers():
    return [PerceptronRanker(half_life=0), PerceptronRanker(), GradientRanker("listnet", optimizer="sgd")]


def loss(scores, y):
    return measure("ndcg@10").loss(scores, y, ties="pessimistic")


def test_greedy_choice_is_that_of_the_smallest_mean_loss():
    model, alone, losses = BestRanker(rankers()), rankers(), [[], [], []]
    for X, y in queries():
        best = int(np.argmin([np.mean(own) if own else 0.0 for own in losses]))
        assert model.predict_one(X) == alone[best].predict_one(X)
        for own, ranker in zip(losses, alone, strict=True):
            scores = ranker.predict_one(X)
            ranker.learn_one(X, y)
            if not ranker.last_round.skipped:
                own.append(loss(scores, y))
        model.learn_one(X, y)
        assert model.last_round._replace(served_loss=0) == pytest.approx(
            alone[best].last_round._replace(served_loss=0), nan_ok=True
        )
    assert model.mean_losses == pytest.approx([np.mean(own) for own in losses])
    for learner, ranker in zip(model.learners, alone, strict=True):
        assert learner.weights.tolist() == ranker.weights.tolist()
    assert all(ranker.last_round is None for ranker in model.rankers)


def test_half_life_weighs_recent_losses():
    model, losses = BestRanker([PerceptronRanker()], half_life=2.0), []
    plain = PerceptronRanker()
    for X, y in queries(20):
        scores = plain.predict_one(X)
        plain.learn_one(X, y)
        model.learn_one(X, y)
        if not plain.last_round.skipped:
            losses.append(loss(scores, y))
    weights = 0.5 ** (np.arange(len(losses))[::-1] / 2)
    assert model.mean_losses[0] == pytest.approx(np.average(losses, weights=weights))


def test_half_life_follows_a_change():
    # The truth turns round: the average of all weights goes on to serve the old one.
    stream = queries(300)
    stream += [(-X, y) for X, y in queries(40, seed=1)]
    averages = [PerceptronRanker(half_life=None), PerceptronRanker(half_life=5.0)]
    slow, fast = (BestRanker(averages, half_life=h) for h in (None, 10.0))
    for X, y in stream:
        slow.learn_one(X, y)
        fast.learn_one(X, y)
    assert fast.best_ranker is fast.learners[1]
    assert slow.best_ranker is slow.learners[0]


@pytest.mark.parametrize(
    "first", [lambda: PerceptronRanker(), lambda: PointwiseRanker(linear_model.LinearRegression()), lambda: GradientRanker()]
)
def test_nobody_learns_what_one_cannot(first):
    # The last one refuses every query from now on, after all others have learned it.
    model = BestRanker([first(), PerceptronRanker()])
    for X, y in queries(10):
        model.learn_one(X, y)
    before = pickle.dumps(model)
    refusing = copy.copy(model)
    refusing._learners = [model.learners[0], Refusing()]
    refusing.learners[1]._extend(None, 5)
    for X, y in queries(5, seed=1):
        with pytest.raises(ValueError, match="would make BestRanker non-finite"):
            refusing.learn_one(X, y)
    assert pickle.dumps(model) == before


class Refusing(PerceptronRanker):
    def _learn(self, block, rounds):
        return 0


def test_a_clone_has_learned_nothing():
    model = BestRanker([PairwiseRanker(linear_model.LogisticRegression()), PerceptronRanker()])
    for X, y in queries(10):
        model.learn_one(X, y)
    assert all(learner.last_round is None for learner in model.clone().learners)
    assert np.isnan(model.clone().mean_losses).all()


def test_in_a_pipeline_and_in_a_file(tmp_path):
    model = StreamScaler() | BestRanker(rankers())
    for X, y in queries(50):
        model.learn_one(X, y)
    save(model, tmp_path / "model.npz")
    twin = load(tmp_path / "model.npz")
    for X, y in queries(50, seed=1):
        model.learn_one(X, y)
        twin.learn_one(X, y)
        assert twin.rank_one(X) == model.rank_one(X)
    assert twin["BestRanker"].mean_losses.tolist() == model["BestRanker"].mean_losses.tolist()


def test_refused():
    for bad in ([], PerceptronRanker(), None):
        with pytest.raises(TypeError, match="a list of rankers"):
            BestRanker(bad)
    with pytest.raises(TypeError, match=r"(?s)rankers\[1\] is .*a pipeline that ends in one"):
        BestRanker([PerceptronRanker(), StreamScaler()])
    with pytest.raises(ValueError, match="half_life is 0"):
        BestRanker(rankers(), half_life=0)
    with pytest.raises(ValueError, match="ndgc"):
        BestRanker(rankers(), measure="ndgc")


def test_rankers_that_have_learned_before_are_served_as_they_are():
    query = {"a": {"x": 1.0, "y": 0.0}, "b": {"x": 0.0, "y": 3.0}}
    taught = PerceptronRanker.from_weights({"x": 2.0})
    model = BestRanker([taught, PerceptronRanker(), PerceptronRanker.from_weights({"x": 1.0, "y": 1.0})])
    assert model.feature_names == ("x", "y")
    assert model.predict_one(query) == {"a": 2.0, "b": 0.0}
    assert [learner.predict_one(query) for learner in model.learners[1:]] == [{"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 3.0}]
    model.learn_one(query, {"a": 0, "b": 1})
    taught.learn_one(query, {"a": 0, "b": 1})
    assert model.learners[0].predict_one(query) == taught.predict_one(query)
    with pytest.raises(ValueError, match=r"rankers\[1\] has learned from other features"):
        BestRanker([taught, PerceptronRanker.from_weights({"y": 1.0})])
    with pytest.raises(ValueError, match="name their features and others do not"):
        BestRanker([taught, PerceptronRanker.from_weights([1.0])])


class TestDrafts:
    """Clicks on rankings that two rankers drafted choose."""

    QUERY: ClassVar = {"a": {"age": 9.0}, "b": {"age": 1.0}, "c": {"age": 5.0}}

    @staticmethod
    def model(*weights, **parameters):
        return BestRanker([PerceptronRanker.from_weights({"age": w}) for w in weights], drafts=2, **parameters)

    def vote(self, model, wanted):
        shown = model.show_one(self.QUERY)
        model.learn_one(self.QUERY, shown.clicked([d for d in shown.order if d == wanted]))
        return shown

    def test_the_one_that_users_prefer_is_found(self):
        model = self.model(1.0, -1.0, 2.0)
        assert model.rank_one(self.QUERY) == ["a", "c", "b"]
        for t in range(200):
            assert set(self.vote(model, "b").teams) == {0, 1 + t % 2}
            if model.best_ranker is not model.learners[0]:
                break
        assert model.best_ranker is model.learners[1]
        assert model.rank_one(self.QUERY) == ["b", "c", "a"]
        assert not model.votes[:, 0].any()
        assert np.isnan(model.votes[:, 1]).all()

    def test_a_first_query_is_drafted_and_bad_features_are_named(self):
        model = BestRanker([PerceptronRanker(), PerceptronRanker()], drafts=3, seed=1)
        assert sorted(model.show_one(np.ones((4, 2))).order[:2]) == [0, 1]
        with pytest.raises(ValueError, match="nan"):
            model.show_one(np.array([[np.nan], [1.0]]))
        model.learn_one(np.array([[1.0], [0.0]]), [1, 0])
        with pytest.raises(ValueError, match="nan"):
            model.show_one(np.array([[np.nan], [1.0]]))
        assert model.show_one(np.empty((0, 1))).order == ()

    def test_votes_are_those_of_the_account(self):
        model, account = self.model(1.0, -1.0), LossInterval()
        for wanted in ("b", "b", "a", None, "b"):
            shown = self.vote(model, wanted)
            gain = sum({0: -1, 1: 1}[team] for d, team in zip(shown.order, shown.teams, strict=True) if d == wanted)
            account.update(0.5 + 0.5 * gain)
        assert model.votes[1].tolist() == [5.0, account.mean]
        assert model._votes[1].tolist() == account.sums.tolist()

    def test_equal_rankers_stay_and_rankers_without_votes_too(self):
        model, rng = self.model(1.0, 3.0), np.random.default_rng(0)
        for _ in range(300):
            self.vote(model, rng.choice(["a", "b", "c"]))
        assert model.best_ranker is model.learners[0]

    def test_of_several_others_each_is_tested_at_its_part_of_the_level(self):
        model, accounts = self.model(1.0, -1.0, 2.0), {1: LossInterval(), 2: LossInterval()}
        too_soon = 0
        while model.best_ranker is model.learners[0]:
            shown = self.vote(model, "b")
            other = max(shown.teams)
            gain = sum({0: -1, other: 1}[team] for d, team in zip(shown.order, shown.teams, strict=True) if d == "b")
            accounts[other].update(0.5 + 0.5 * gain)
            # Two others: each error has half of the 5 %.
            is_better = accounts[other].lower_limit(1.0 - 0.05 / 2.0) > 0.5
            assert (model.best_ranker is model.learners[other]) == is_better
            too_soon += accounts[other].lower_limit(0.95) > 0.5 and not is_better
        assert too_soon

    def test_the_loss_that_was_served_is_that_of_the_scores_that_were_served(self):
        model = BestRanker([PerceptronRanker(), PerceptronRanker(half_life=0)])
        model.learn_one([[1.0], [0.0]], [1, 0], served=[1.0, 0.0])
        assert model.last_round.served_loss == 0.0
        model = BestRanker([PerceptronRanker(), PerceptronRanker(half_life=0)])
        model.learn_one([[1.0], [0.0]], [1, 0])
        assert model.last_round.served_loss == pytest.approx(1.0 - 1.0 / np.log2(3.0))

    def test_late_votes_on_a_ranker_that_is_no_longer_best_are_left_out(self):
        model = self.model(1.0, -1.0, -2.0)
        late = [model.show_one(self.QUERY) for _ in range(2)]
        while model.best_ranker is model.learners[0]:
            self.vote(model, "b")
        stale, current = sorted(late, key=lambda shown: model._chosen in shown.teams)
        model.learn_one(self.QUERY, stale.clicked(["a"] if "a" in stale.order else []))
        assert not model._votes.any()
        model.learn_one(self.QUERY, current.clicked([current.order[current.teams.index(0)]]))
        assert model.votes[0].tolist() == [1.0, 1.0]

    def test_votes_teach_nothing_and_grades_teach_all(self):
        model = self.model(1.0, -1.0)
        weights = [learner.weights.tolist() for learner in model.learners]
        self.vote(model, "b")
        assert [learner.weights.tolist() for learner in model.learners] == weights
        assert (model.last_round.skipped, model.last_round.n_documents, model.last_round.mass) == (True, 3, 0.0)
        model.learn_one(self.QUERY, {"a": 0, "b": 2, "c": 0})
        assert model.learners[0].weights.tolist() != weights[0]
        assert model.best_ranker is model.learners[0]

    def test_in_a_pipeline_copied_saved_and_replayed(self):
        model = StreamScaler() | self.model(1.0, -1.0, seed=3)
        for _ in range(6):
            self.vote(model, "b")
        again = from_bytes(to_bytes(model))
        shown = [copy.deepcopy(model).show_one(self.QUERY), again.show_one(self.QUERY)]
        assert shown[0] == shown[1] == Impression.from_dict(json.loads(json.dumps(shown[0].to_dict())))
        for one, impression in zip((model, again), (model.show_one(self.QUERY), shown[1]), strict=True):
            one.learn_one(self.QUERY, impression.clicked(["b"] if "b" in impression.order else []))
        assert to_bytes(model) == to_bytes(again)

    def test_behind_the_service(self):
        service = RankingService(self.model(1.0, -1.0))
        for t in range(60):
            answer = service.handle(json.dumps({"id": t, "docs": self.QUERY}).encode()).answer
            shown = answer["ranking"][: answer["shown"]]
            learned = service.handle(json.dumps({"id": t, "clicks": [d for d in shown if d == "b"]}).encode())
            assert learned.answer["learned"]
        assert service.model.rank_one(self.QUERY) == ["b", "c", "a"]

    def test_behind_the_service_beside_a_challenger(self):
        service = RankingService(self.model(1.0, -1.0), challenge=Challenge(self.model(1.0, -1.0)))
        for t in range(20):
            answer = service.handle(json.dumps({"id": t, "docs": self.QUERY}).encode()).answer
            learned = service.handle(json.dumps({"id": t, "clicks": answer["ranking"][:1]}).encode())
            assert learned.answer["learned"]
        # Every other list is drafted by the challenge, and is no vote between the rankers of a model.
        assert service.challenge.n_drafted == 10
        assert service.model.votes[1, 0] == 10

    def test_bad_input(self):
        with pytest.raises(ValueError, match="drafts is 0"):
            BestRanker([PerceptronRanker(), PerceptronRanker()], drafts=0)
        for parameters in ({"rankers": [PerceptronRanker()]}, {"half_life": 3.0}):
            with pytest.raises(ValueError, match="drafts needs two rankers"):
                BestRanker(**{"rankers": [PerceptronRanker()] * 2, "drafts": 3, **parameters})
        model = self.model(1.0, -1.0)
        before = to_bytes(model)
        for teams in (None, (0, 2), ("a", "b")):
            with pytest.raises(ValueError, match="not drafted by this ranker"):
                model.learn_one(self.QUERY, Impression(("a", "b"), teams=teams).clicked(["a"]))
        assert to_bytes(model) == before
        with pytest.raises(TypeError, match="learns from grades"):
            BestRanker([PerceptronRanker()]).learn_one(self.QUERY, Impression(("a",)).clicked(["a"]))
        with pytest.raises(TypeError, match="no policy of its own"):
            BestRanker([PerceptronRanker()]).show_one(self.QUERY)
