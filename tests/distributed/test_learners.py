"""Learners of one stream, which are killed at each call of their exchange, and which believe to be each other."""

import copy
import os
import threading
import warnings

import numpy as np
import pytest

from online_rank import AdditiveRanker, DirectRanker, LossTracker, PerceptronRanker, StreamScaler
from online_rank.distributed import fork, from_bytes, mix, to_bytes
from online_rank.distributed.learners import Learner, OffsetsMoved, exchange_at, last_mix
from online_rank.storage.files import ModelFileError
from tests.helpers import linear_queries
from tests.reference import postgresql

QUERIES = linear_queries(48)
#: Each learner exchanges when it has come to these queries of its partition.
EACH, K = 4, 2


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("online_rank.distributed.learners._LOOK", 0.002)


def make():
    return StreamScaler() | PerceptronRanker()


def learner(place, number, *, of=K, model=None, seconds=1e9):
    return Learner(exchange_at(place), model or make(), number=number, of=of, seconds=seconds)


def partition(number, offsets, of=K):
    """The rest of a partition: queries `number`, `number + of`, and so on; their offsets are 0, 3, 6."""
    for place, (X, y) in enumerate(QUERIES[number::of]):
        if 3 * place >= offsets.get(number, 0):
            yield number, 3 * place, X, y


def work(one):
    """Learn the whole partition, exchanging after every few queries, wherever a process before this one has ended."""
    ends = len(QUERIES) // K
    while (done := one.offsets.get(one.number, 0)) < 3 * (ends - 1) + 1:
        until = 3 * ((done + 2) // 3 // EACH + 1) * EACH
        for number, offset, X, y in partition(one.number, one.offsets):
            if offset < until:
                one.learn(X, y, partition=number, offset=offset)
        one.exchange()


def expected(base=None):
    base = base or make()
    for first in range(0, len(QUERIES), K * EACH):
        shards = [fork(base, number=number) for number in range(K)]
        for number, (X, y) in enumerate(QUERIES[first : first + K * EACH]):
            shards[number % K].learn_one(X, y)
        base = mix(shards, base)
    return base


def together(*calls):
    """Run calls in threads; returns what they raised."""
    raised = [None] * len(calls)

    def call(number):
        try:
            calls[number]()
        except BaseException as error:
            raised[number] = error

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def require_all_learned(place):
    found = last_mix(exchange_at(place))
    assert to_bytes(found.model) == to_bytes(expected())
    assert found.n_queries == len(QUERIES)
    ends = 3 * (len(QUERIES) // K - 1) + 1
    assert found.offsets == {0: ends, 1: ends}
    assert found.model["StreamScaler"].n_documents == sum(len(y) for _, y in QUERIES)


def test_rounds_of_learners_are_forks_that_learn_and_are_mixed(tmp_path):
    one, other = learner(tmp_path / "x", 0), learner(tmp_path / "x", 1)
    assert together(lambda: work(one), lambda: work(other)) == [None, None]
    require_all_learned(tmp_path / "x")
    assert one.served.round == len(QUERIES) // K // EACH
    assert to_bytes(one.served.model) == to_bytes(other.served.model)
    # Models of earlier rounds are gone.
    assert exchange_at(tmp_path / "x").names() == {"6-mix"}


class Killed(BaseException):
    pass


class Deadly:
    """An exchange whose user dies at a call, before or after it."""

    def __init__(self, exchange, at, after):
        self._exchange, self._left, self._after = exchange, at, after

    def _call(self, name, *arguments):
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        answer = getattr(self._exchange, name)(*arguments)
        if self._left == 0:
            raise Killed
        return answer

    def put(self, name, content):
        self._call("put", name, content)

    def get(self, name):
        return self._call("get", name)

    def delete(self, name):
        self._call("delete", name)

    def names(self):
        return self._exchange.names()

    def close(self):
        self._exchange.close()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_learner_killed_at_any_call_loses_nothing_and_learns_nothing_twice(tmp_path, after, monkeypatch):
    """It is killed at its n-th call, again and again: the mix has the bits of learners that nobody killed."""
    monkeypatch.setattr("online_rank.distributed.learners._GRACE", 0.1)
    for at in range(2, 14):
        place = tmp_path / f"x{at}"

        def mortal(number, place=place, at=at):
            tries = 0
            while True:
                tries += 1
                # Later lives are longer, so that it ends.
                exchange = Deadly(exchange_at(place), at + tries // 4, after)
                try:
                    return work(Learner(exchange, make(), number=number, of=K, seconds=1e9))
                except Killed:
                    continue

        assert together(lambda mortal=mortal: mortal(0), lambda mortal=mortal: mortal(1)) == [None, None]
        require_all_learned(place)


def test_the_last_mix_is_made_by_another_if_who_came_last_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("online_rank.distributed.learners._GRACE", 0.1)
    one, other = learner(tmp_path, 0), learner(tmp_path, 1)
    one.learn(*QUERIES[0], partition=0, offset=0)
    other.learn(*QUERIES[1], partition=1, offset=0)
    monkeypatch.setattr(other, "_mix", lambda names: (_ for _ in ()).throw(Killed()))
    raised = together(one.exchange, other.exchange)
    assert [type(each) for each in raised] in ([type(None), Killed], [type(None), type(None)])
    assert last_mix(exchange_at(tmp_path)).n_queries == 2


def test_what_the_topic_delivers_again_is_not_learned_again(tmp_path):
    one = learner(tmp_path, 0, of=1)
    assert [one.learn(*QUERIES[k], partition=0, offset=k) for k in (0, 1, 1, 0, 5, 4)] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    one.exchange()
    again = learner(tmp_path, 0, of=1)
    assert not again.learn(*QUERIES[5], partition=0, offset=5)
    assert (again.offsets, again.served.n_queries) == ({0: 6}, 3)


def test_a_bad_query_changes_nothing_and_may_be_left_out(tmp_path):
    one = learner(tmp_path, 0, of=1)
    one.learn(*QUERIES[0], partition=0, offset=0)
    before = to_bytes(one.model)
    with pytest.raises(ValueError, match="grade"):
        one.learn(QUERIES[1][0], -QUERIES[1][1] - 1, partition=0, offset=1)
    assert (to_bytes(one.model), one.offsets) == (before, {0: 1})
    assert one.learn(*QUERIES[2], partition=0, offset=2)
    with pytest.raises(ValueError, match="partition is 1, which learner 1 of 2 has; this is learner 0"):
        learner(tmp_path / "y", 0).learn(*QUERIES[2], partition=1, offset=2)


def test_two_processes_that_are_the_same_learner(tmp_path):
    """The one that comes second reads on from where the first one's query ends."""
    first, twin = learner(tmp_path, 0, of=1), learner(tmp_path, 0, of=1)
    first.learn(*QUERIES[0], partition=0, offset=0)
    twin.learn(*QUERIES[0], partition=0, offset=0)
    twin.learn(*QUERIES[1], partition=0, offset=1)
    first.exchange()
    with pytest.raises(OffsetsMoved, match="another process is learner 0 of 1"):
        twin.exchange()
    assert (twin.offsets, twin.served.n_queries) == ({0: 1}, 1)
    assert twin.learn(*QUERIES[1], partition=0, offset=1)
    twin.exchange()
    # The other one is a round behind, and its query is not learned twice.
    first.learn(*QUERIES[1], partition=0, offset=1)
    first.exchange()
    alone = make()
    for X, y in QUERIES[:2]:
        alone.learn_one(X, y)
    found = last_mix(exchange_at(tmp_path))
    assert found.n_queries == 2
    assert found.model["PerceptronRanker"].weights == pytest.approx(alone["PerceptronRanker"].weights)


def test_of_two_that_put_as_one_learner_the_first_counts(tmp_path):
    first, twin, other = learner(tmp_path, 0), learner(tmp_path, 0), learner(tmp_path, 1)
    first.learn(*QUERIES[0], partition=0, offset=0)
    for k in (0, 2):
        twin.learn(*QUERIES[k], partition=0, offset=k)
    exchange = exchange_at(tmp_path)
    waiting = threading.Thread(target=first.exchange, daemon=True)
    waiting.start()
    while "0-0-of-2" not in exchange.names():
        pass
    raised = []
    late = threading.Thread(target=lambda: raised.extend(together(twin.exchange)), daemon=True)
    late.start()
    other.exchange()
    waiting.join()
    late.join()
    assert [type(each) for each in raised] == [OffsetsMoved]
    assert last_mix(exchange).n_queries == 1
    assert first.offsets == twin.offsets == other.offsets == {0: 1}


def test_a_name_in_a_folder_is_given_once(tmp_path):
    exchange = exchange_at(tmp_path)
    for content in (b"first", b"second"):
        exchange.put("3-mix", content)
    assert (exchange.get("3-mix"), exchange.get("4-mix"), exchange.names()) == (b"first", None, {"3-mix"})
    assert [path.name for path in tmp_path.iterdir()] == ["3-mix"]
    exchange.delete("3-mix")
    exchange.delete("3-mix")
    assert exchange.names() == set()


@pytest.mark.parametrize("call", ["fsync", "link", "unlink"])
def test_a_name_in_a_folder_may_be_deleted_while_it_is_put(tmp_path, monkeypatch, call):
    """A twin that comes late to its round puts a name that others delete, because they are in the next round."""
    exchange, original = exchange_at(tmp_path), getattr(os, call)

    def overtaken(*args, **options):
        with monkeypatch.context() as within:
            within.setattr(os, call, original)
            exchange.delete("0-0-of-2")
        return original(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, overtaken)
        exchange.put("0-0-of-2", b"late")
    assert [*tmp_path.iterdir()] == []
    exchange.put("0-0-of-2", b"again")
    assert exchange.get("0-0-of-2") == b"again"


def test_run_reads_again_when_offsets_have_moved(tmp_path):
    first, twin = learner(tmp_path, 0, of=1), learner(tmp_path, 0, of=1)
    calls = []

    def read(offsets):
        calls.append(dict(offsets))
        for place in range(offsets.get(0, 0), 4):
            yield 0, place, *QUERIES[place]
            if len(calls) == 1 and place == 2:
                first.learn(*QUERIES[0], partition=0, offset=0)
                first.exchange()
                twin._began = -1e9
            yield None

    twin.run(read)
    twin.exchange()
    assert calls == [{}, {0: 1}]
    assert last_mix(exchange_at(tmp_path)).n_queries == 4


def test_another_number_of_learners_continues_from_the_last_mix(tmp_path):
    one, other = learner(tmp_path, 0), learner(tmp_path, 1)
    for each in (one, other):
        each.learn(*QUERIES[each.number], partition=each.number, offset=0)
    assert together(one.exchange, other.exchange) == [None, None]
    # One has put more when all end.
    one.learn(*QUERIES[2], partition=0, offset=1)
    ended = threading.Thread(target=one.exchange, daemon=True)
    ended.start()
    alone = learner(tmp_path, 0, of=1)
    assert alone.offsets == {0: 1, 1: 1}
    for number in (0, 1):
        assert alone.learn(*QUERIES[2 + number], partition=number, offset=1)
    alone.exchange()
    assert last_mix(exchange_at(tmp_path)).n_queries == 4
    ended.join()
    assert one.served.n_queries == 4


def test_models_are_exchanged_when_it_is_time(tmp_path):
    one = learner(tmp_path, 0, of=1, seconds=1000.0)
    one.learn(*QUERIES[0], partition=0, offset=0)
    assert one.served.round == 0
    one._began -= 1000.0
    one.tick()
    assert (one.served.round, one.served.n_queries) == (1, 1)
    one._began -= 1000.0
    one.learn(*QUERIES[1], partition=0, offset=1)
    assert (one.served.round, one.served.n_queries) == (2, 2)


def test_what_ranks_stays_as_it_is_while_the_learner_learns(tmp_path):
    one = learner(tmp_path, 0, of=1)
    one.learn(*QUERIES[0], partition=0, offset=0)
    one.exchange()
    before = to_bytes(one.served.model)
    one.learn(*QUERIES[1], partition=0, offset=1)
    assert to_bytes(one.served.model) == before
    assert to_bytes(one.model) != before


def test_bad_arguments_and_other_settings(tmp_path):
    for bad, message in (
        ({"of": 0}, "of is 0"),
        ({"number": 2}, "number is 2; of 2 learners"),
        ({"seconds": 0.0}, "seconds is 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            Learner(exchange_at(tmp_path / "a"), make(), **{"number": 0, "of": 2, **bad})
    with pytest.raises(TypeError, match="DirectRanker has no rule"):
        learner(tmp_path / "a", 0, model=DirectRanker(hidden=(3,)))
    assert exchange_at(tmp_path / "a").names() == set()
    learner(tmp_path / "a", 0)
    with pytest.raises(ValueError, match="has the models of learners with other settings"):
        learner(tmp_path / "a", 1, model=StreamScaler() | PerceptronRanker(measure="ap"))
    with pytest.raises(ValueError, match=r"name is '\.\./x'"):
        exchange_at(tmp_path).put("../x", b"")


def test_a_damaged_exchange_is_refused(tmp_path):
    learner(tmp_path, 0, of=1)
    content = bytearray((tmp_path / "0-mix").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "0-mix").write_bytes(content)
    with pytest.raises(ModelFileError):
        learner(tmp_path, 0, of=1)


def test_what_a_killed_writer_left_goes_with_its_round(tmp_path):
    one = learner(tmp_path, 0, of=1)
    (tmp_path / ".0-0-of-1.abc").write_bytes(b"half")
    one.exchange()
    assert [path.name for path in tmp_path.iterdir()] == ["1-mix"]


def test_a_tracker_is_certified_by_the_bound_for_several_machines(tmp_path):
    model = LossTracker(PerceptronRanker(), {"u": np.array([1.0, -0.5, 2.0, 0.25])})
    both = [learner(tmp_path, number, model=copy.deepcopy(model)) for number in range(K)]
    assert together(*(lambda one=one: work(one) for one in both)) == [None, None]
    certificate = last_mix(exchange_at(tmp_path)).model.certificate()
    assert certificate.holds
    assert [check.name for check in certificate.bounds] == ["mass_hindsight_bound", "mixing_data_bound", "mixing_bound"]


def test_each_learner_draws_by_its_number(tmp_path):
    both = [learner(tmp_path, number, model=AdditiveRanker()) for number in range(K)]
    assert [to_bytes(one.model) for one in both] == [to_bytes(fork(AdditiveRanker(), number=number)) for number in range(K)]
    assert to_bytes(both[0].model) != to_bytes(both[1].model)


def test_a_learner_decodes_only_what_others_have_put(tmp_path, monkeypatch):
    decoded = []
    monkeypatch.setattr("online_rank.distributed.learners.from_bytes", lambda content: decoded.append(1) or from_bytes(content))
    both = [learner(tmp_path, number, model=AdditiveRanker()) for number in range(K)]
    decoded.clear()
    assert together(*(lambda one=one: work(one) for one in both)) == [None, None]
    rounds = len(QUERIES) // K // EACH
    # Who mixes decodes the other one's model, and the other one decodes the mix; both may mix at the same time.
    assert 2 * rounds <= len(decoded) <= 3 * rounds
    assert to_bytes(both[0].served.model) == to_bytes(both[1].served.model) == to_bytes(expected(AdditiveRanker()))


@pytest.mark.slow
def test_the_default_learns_in_rounds(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = [learner(tmp_path, number, model=AdditiveRanker()) for number in range(K)]
        assert together(*(lambda one=one: work(one) for one in both)) == [None, None]
    found = last_mix(exchange_at(tmp_path))
    assert found.n_queries == len(QUERIES)
    X, y = QUERIES[0]
    assert np.corrcoef(found.model.predict_one(X), y)[0, 1] > 0.5


@pytest.mark.slow
@pytest.mark.skipif(postgresql.programs() is None, reason="PostgreSQL is not installed")
def test_an_exchange_in_postgresql():
    with postgresql.running() as server:
        exchange = exchange_at(server.address)
        exchange.put("3-mix", b"first")
        exchange.put("3-mix", b"second")
        assert (exchange.get("3-mix"), exchange.get("4-mix"), exchange.names()) == (b"first", None, {"3-mix"})
        exchange.delete("3-mix")
        exchange.delete("3-mix")
        assert exchange.names() == set()
        with pytest.raises(ValueError, match="name is 'A'"):
            exchange.put("A", b"")
        exchange.close()
        one, other = learner(server.address, 0), learner(server.address, 1)
        assert together(lambda: work(one), lambda: work(other)) == [None, None]
        require_all_learned(server.address)
        assert "tester" not in str(one._exchange)
        # As the database has lost its connections, the next process begins where the last round ended.
        server.kill()
        server.start()
        with pytest.raises(OSError, match="postgres"):
            one.exchange()
        assert learner(server.address, 0).offsets == one.offsets
