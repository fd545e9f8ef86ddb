"""Entries refuse arrays that do not fit together before they read or write one of them; and no score leads out of a ranking."""

import copy

import numpy as np
import pytest

from online_rank import PerceptronRanker, SlamRanker
from online_rank._kernels import click_perceptron as clicked
from online_rank._kernels import (
    clicks,
    dense,
    file_trees,
    graded,
    hashing,
    letor,
    metrics,
    preprocessing,
    quantile_map,
    slam,
    sparse,
    trees,
)
from online_rank._kernels import perceptron as kernels
from online_rank._kernels.click_perceptron import compare_on_clicks
from online_rank._kernels.codes import DOCUMENTS, N_COUNTERS
from online_rank.feedback.arrays import ShownBlock
from online_rank.measures.learned import discounts
from online_rank.query import SparseRows, as_grades
from online_rank.query.sparse import checked_rows
from tests.kernels.calling import Module, workspace
from tests.kernels.calling import graded as graded_query

UNFIT = pytest.raises(ValueError, match="arrays of a kernel do not fit together")
X, W = np.ones((4, 3)), np.ones(3)


def rows(starts, columns):
    """Sparse rows of ones, of three columns."""
    return SparseRows(np.array(starts), np.array(columns, np.int32), np.ones(len(columns)), 3)


def table(values):
    """A table of discounts, read-only as models hand it in: numba would compile the kernels again for another."""
    made = np.array(values)
    made.setflags(write=False)
    return made


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (dense.score, (X, np.ones(2), np.empty(4))),
        (dense.score, (X, W, np.empty(3))),
        (dense.score_with_norms, (X, np.ones(4), np.empty(4))),
        (sparse.score_with_norms, (rows([0, 1], [3]), W[:, None], np.empty(1))),
        (sparse.score_with_norms, (rows([0, 1], [-1]), W[:, None], np.empty(1))),
        (sparse.score_with_norms, (rows([0, 2], [1]), W[:, None], np.empty(1))),
        (sparse.score_with_norms, (rows([1, 0, 1], [1]), W[:, None], np.empty(2))),
        (graded.ranking_losses, (0, 0, 1, np.ones(4), np.arange(4), np.array([0, 5]), table([1.0] * 8), np.empty(1))),
        (graded.ranking_losses, (0, 0, 1, np.ones(4), np.arange(4), np.array([0, 4]), table([1.0] * 3), np.empty(1))),
        (graded.judge_rankings, (0, 0, 1, np.ones((2, 4)), np.arange(3), table([1.0] * 8), np.empty(2))),
        (metrics.metric_values, (0, 0, 1, 0, np.ones(4), np.arange(4), np.array([0, 9]), *2 * [table([1.0] * 9)], np.empty(1))),
        (preprocessing.scale, (X, 1, W, np.ones(2), True, np.empty((4, 3)))),
        (preprocessing.normalise_queries, (X, np.array([0, 5]), False, np.empty((4, 3)))),
        (
            file_trees.score_file_trees,
            (
                X, np.array([3, -1, -1]), np.zeros(3), np.zeros(3, np.uint8), np.array([1, 0, 0]), np.array([2, 0, 0]),
                np.ones(3), np.zeros(1, np.int64), 0.0, np.zeros(4),
            ),
        ),
        (
            trees.score_trees,
            (
                np.zeros((2, 3), np.uint8), np.full((1, 1), 3), np.zeros((1, 1), np.int64), np.zeros((1, 2)), 1.0, 0.1,
                np.zeros(2),
            ),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(kernel, arguments):
    before = copy.deepcopy(arguments)
    with UNFIT:
        kernel(*arguments)
    for value, was in zip(arguments, before, strict=True):
        for part, part_was in zip(value, was, strict=True) if isinstance(value, tuple) else [(value, was)]:
            np.testing.assert_array_equal(part, part_was)


@pytest.mark.parametrize("place", range(10))
def test_learning_refuses_an_array_that_is_too_short(place):
    arguments = [
        X, np.array([0, 1, 2, 0]), np.array([0, 4]), np.ones(1), table(discounts(4)[:4]), PerceptronRanker()._config,
        np.ones(3), np.ones(3), np.zeros(N_COUNTERS), np.empty((1, 10)),
    ]  # fmt: skip
    refuses_shorter(kernels.learn, arguments, place)


@pytest.mark.parametrize("place", [*range(7), 8, 9])
def test_slam_refuses_an_array_that_is_too_short(place):
    arguments = [
        X, np.array([0, 1, 2, 0]), np.array([0, 4]), np.ones(1), table(discounts(4)[:4]), SlamRanker()._config, np.ones(3),
        np.empty(0), np.zeros(DOCUMENTS + 1), np.empty((1, 10)),
    ]  # fmt: skip
    refuses_shorter(slam.learn, arguments, place)


def refuses_shorter(kernel, arguments, place):
    """A kernel learns a query from arguments of which number 3 are the weights of queries, and not if one is shorter."""
    assert kernel(*arguments) == 1
    shorter = arguments[place][:-1].copy() if place != 3 else np.ones(2)
    arguments[place] = table(shorter) if place == 4 else shorter
    with UNFIT:
        kernel(*arguments)


def clicks_on_two(**changed):
    """Arguments of `clicks.learn` for one query, two of whose four documents were shown; some of them `changed`."""
    shown = ShownBlock(
        rows=np.array([2, 0]), starts=np.array([0, 2]), held=np.array([0]), gains=np.array([0.0, 1.0]), places=np.array([0, 1]),
        logits=np.zeros(2), rests=np.zeros(1), kinds=np.array([0]), chances=np.empty(0),
    )  # fmt: skip
    own = {name: value for name, value in changed.items() if name in ShownBlock._fields}
    given = {
        "X": X, "offsets": np.array([0, 4]), "shown": shown._replace(**own), "weights": np.ones(1), "wealth": 1.0,
        "w": np.zeros(3), "average": np.empty(0), "state": np.ones((4, 3)), "beginning": np.empty(0),
        "baseline": np.zeros((2, clicks.PLACES, clicks.PLACES)), "counters": np.zeros(6), "rounds": np.empty((1, 10)),
    }  # fmt: skip
    return {**given, **{name: value for name, value in changed.items() if name not in own}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", np.ones((3, 3))),
        ("X", np.ones((4, 2))),
        ("offsets", np.array([0, 2])),
        ("rows", np.array([2, 4])),
        ("rows", np.array([2, -1])),
        ("rows", np.array([2])),
        ("starts", np.array([0, 3])),
        ("held", np.array([3])),
        ("held", np.zeros(0, np.int64)),
        ("gains", np.ones(1)),
        ("places", np.array([0, -1])),
        ("places", np.array([0])),
        ("logits", np.zeros(1)),
        ("rests", np.zeros(0)),
        ("kinds", np.zeros(0, np.int64)),
        ("chances", np.ones(1)),
        ("beginning", np.zeros(2)),
        ("state", np.ones((3, 3))),
        ("baseline", np.zeros((2, 5, 5))),
        ("counters", np.zeros(5)),
        ("rounds", np.empty((0, 10))),
    ],
)
def test_learning_from_clicks_refuses_what_does_not_fit(name, value):
    fitting, unfit = clicks_on_two(), clicks_on_two(**{name: value})
    assert clicks.learn(*fitting.values()) == 1
    with UNFIT:
        clicks.learn(*unfit.values())
    assert unfit["w"].tolist() == [0.0] * 3
    # The same documents as sparse rows, and the perceptron on clicks.
    if name in ("X", "w", "state", "beginning"):
        return
    sparse_rows = SparseRows(np.arange(0, 13, 3), np.tile(np.arange(3, dtype=np.int32), 4), np.ones(12), 3)
    feedback, rest = (unfit["offsets"], unfit["shown"], unfit["weights"]), (unfit["counters"], unfit["rounds"])
    with UNFIT:
        clicks.learn(sparse_rows, *feedback, 1.0, np.zeros((3, 8)), False, None, None, unfit["baseline"], *rest)
    if name != "baseline":
        settings = table([1.0] * 4), np.array([0.5, 1.0, 0.0])
        with UNFIT:
            clicked.learn(unfit["X"], *feedback, *settings, np.zeros(3), np.zeros(3), np.zeros((1, 3)), *rest)
        with UNFIT:
            clicked.learn(sparse_rows, *feedback, *settings, np.zeros((3, 5)), True, None, *rest)


@pytest.mark.parametrize(("width", "squares"), [(4, None), (5, np.zeros((1, 2)))])
def test_the_perceptron_on_clicks_needs_room_for_squared_updates(width, squares):
    given = clicks_on_two()
    feedback = given["offsets"], given["shown"], given["weights"], table([1.0] * 4), np.array([0.5, 1.0, 0.0])
    w, average = (np.zeros((3, width)), True) if squares is None else (np.zeros(3), np.zeros(3))
    with UNFIT:
        clicked.learn(rows([0, 1, 2, 3, 4], [0, 1, 2, 0]) if squares is None else X, *feedback, w, average, squares,
                      np.zeros(6), np.empty((1, 10)))  # fmt: skip


TEXT = np.frombuffer(b"a\nb", np.uint8)
LINE = np.frombuffer(b"1 qid:3 1:2\n", np.uint8).copy()


def comparing(**changed):
    """Arguments of `compare_on_clicks` for two comparators; some of them `changed`."""
    given = {
        "shown": clicks_on_two()["shown"], "by_discount": False, "discounts": table([1.0] * 4), "s": np.zeros(4), "margin": 0.0,
        "weight": 1.0, "scores": np.ones((2, 4)), "out": np.zeros(2),
    }  # fmt: skip
    return tuple({**given, **changed}.values())


def knot_table(d):
    """A table for d features, as `StreamQuantileMap` has it."""
    return (
        np.zeros(d, np.uint8), np.zeros(d, np.int64), np.zeros((d, quantile_map.KNOT, 4 + quantile_map.BEYOND)),
        np.zeros((d, 256), np.uint8), np.zeros((quantile_map.FINDER, d)),
    )  # fmt: skip


def finding(**changed):
    """Arguments of `find_knots` for three features; some of them `changed`."""
    sketches = quantile_map.Sketches(np.zeros((3, 5)), np.zeros(3, np.int64), np.zeros(3), 1.0, np.zeros(3))
    nothing = quantile_map.Sketches(np.zeros((0, 5)), np.zeros(0, np.int64), np.zeros(0), 0.0, np.zeros(0))
    given = {"first": 0, "stop": 3, "sketches": sketches, "old": nothing, "draw": 0.5, "table": knot_table(3)}
    return tuple({**given, **changed}.values())


def parsing(**changed):
    """Arguments of `letor.parse_rows` for one line; some of them `changed`."""
    given = {
        "buffer": LINE, "line": 1, "ids": np.empty(len(LINE), np.int64), "values": np.empty(len(LINE)),
        "starts": np.empty(2, np.int64), "grades": np.empty(1), "meta": np.empty((1, letor.META_COLUMNS), np.int64),
        "left": np.empty((len(LINE) + 1, 3), np.int64),
    }  # fmt: skip
    return tuple({**given, **changed}.values())


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (clicks.mixed_logits, (np.ones(3), 1.0, np.empty(2))),
        (clicks.draw, (np.ones(3), np.ones(2), 2, np.empty(2, np.int64), np.empty(2))),
        (clicks.draw, (np.ones(3), np.ones(3), 2, np.empty(1, np.int64), np.empty(2))),
        (clicks.draw, (np.ones(3), np.ones(3), 4, np.empty(4, np.int64), np.empty(4))),
        (clicks.evidence, (np.ones(3), np.ones(2))),
        (clicks.exponentials, (np.ones(3), 0.0, np.empty(2))),
        (clicks.swap_weight, (np.ones(3), 0.0, 0.0, 0, 3)),
        (clicks.harvest, (np.ones(3), np.ones(2), 0.0, np.zeros((3, 3)))),
        (compare_on_clicks, comparing(scores=np.ones((2, 3)))),
        (compare_on_clicks, comparing(out=np.zeros(3))),
        (compare_on_clicks, comparing(discounts=table([1.0] * 3))),
        (compare_on_clicks, comparing(shown=clicks_on_two(rows=np.array([4, 0]))["shown"])),
        (quantile_map.find_knots, finding(stop=4)),
        (
            quantile_map.find_knots,
            finding(sketches=quantile_map.Sketches(np.zeros((3, 5)), np.full(3, 6), np.zeros(3), 1.0, np.zeros(3))),
        ),
        (
            quantile_map.find_knots,
            finding(old=quantile_map.Sketches(np.zeros((1, 5)), np.array([6]), np.zeros(1), 1.0, np.zeros(1))),
        ),
        (quantile_map.find_knots, finding(table=knot_table(2))),
        (hashing.hash_names, (TEXT, 32, np.empty(2, np.int32), np.ones(2))),
        (hashing.hash_names, (TEXT, 4, np.empty(2, np.int32), np.ones(1))),
        (sparse.divide_by_largest, (rows([0, 1], [3]), np.array([0, 1]), W, np.empty(1), False)),
        (sparse.divide_by_largest, (rows([0, 1], [-1]), np.array([0, 1]), W, np.empty(1), True)),
        (sparse.divide_by_largest, (rows([0, 1], [1]), np.array([0, 2]), W, np.empty(1), False)),
        (letor.parse_rows, parsing(buffer=LINE[:-1])),
        (letor.parse_rows, parsing(buffer=np.concatenate([LINE, LINE]))),
        (letor.parse_rows, parsing(ids=np.empty(len(LINE) // 3 - 1, np.int64))),
        (letor.parse_rows, parsing(starts=np.empty(1, np.int64))),
        (letor.parse_rows, parsing(meta=np.empty((1, 8), np.int64))),
        (letor.parse_rows, parsing(left=np.empty((len(LINE), 3), np.int64))),
        (letor.fill_rows, (np.array([0, 1]), np.array([3]), np.ones(1), 1, np.zeros((1, 2)))),
        (letor.fill_rows, (np.array([0, 2]), np.array([1]), np.ones(1), 1, np.zeros((1, 2)))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_arrays_of_clicks_names_and_text_that_do_not_fit_are_refused(kernel, arguments):
    with UNFIT:
        kernel(*arguments)


@pytest.mark.parametrize("scores", [[np.nan] * 5, [1.0, np.nan, 2.0, np.nan, 0.0], [-np.inf, np.inf, np.nan, 0.0, 1.0]])
@pytest.mark.parametrize("depth", [1, 3, 5])
def test_a_ranking_ends_for_any_scores(scores, depth):
    rank = Module(graded).rank_pessimistically
    order, query, work = np.full(5, 10**9), graded_query([0, 1, 2, 1, 0]), workspace(5)
    rank(np.array(scores), query, depth, order, work)
    assert len(set(order[:depth].tolist()) & set(range(5))) == depth
    finite = [i for i in range(5) if scores[i] == scores[i]]
    # What is no number is last.
    assert all(i in finite for i in order[: min(depth, len(finite))])


def test_grades_are_copied():
    """Kernels index by grades that they have checked: the caller's array may change after that."""
    for y in (np.array([0, 1, 2, 0]), np.array([0, 9, 1, 9, 2, 9, 0])[::2], np.array([0, 1, 2, 0], np.int32)):
        assert not np.shares_memory(as_grades(y, 4), y)
        assert as_grades(y, 4).tolist() == [0, 1, 2, 0]


def test_what_kernels_index_by_is_copied_from_sparse_rows():
    given = SparseRows(np.array([0, 1, 2]), np.array([0, 2], np.int32), np.ones(2), 3)
    taken = checked_rows(given)
    assert not np.shares_memory(taken.starts, given.starts)
    assert not np.shares_memory(taken.columns, given.columns)
    assert np.shares_memory(taken.values, given.values)
