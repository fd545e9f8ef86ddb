"""Campaigns that add up over several runs."""

from benchmarks._campaigns import Campaign, Progress
from benchmarks._kept import Kept


def counting(n_slices, measured):
    def measure(number, seed):
        measured.append((number, seed))
        return {"all": {"cases": number + 1, "same": number != 2, "complaints": [f"slice {number}"] * (number == 2)}}

    return Campaign(
        n_slices, measure, lambda tally: [(tally["all"]["cases"], tally["all"]["same"], *tally["all"]["complaints"])]
    )


def test_a_campaign_adds_up_over_several_runs_and_nothing_is_measured_twice(tmp_path):
    measured, other = [], []

    def progress(size):
        campaigns = {"a": counting(4, measured), "b": counting(2, other)}
        return Progress(campaigns, size, 7, Kept(tmp_path / "kept.json"))

    assert progress(1.0).n_done("a") == 0
    progress(1.0).measure(0.0)
    assert measured == other == []
    first = progress(0.5)
    first.measure(1.0)
    assert measured == [(0, 7), (1, 7)]
    assert other == [(0, 7)]
    assert first.section("a")[0] == [(1 + 2, True)]
    assert first.section("a")[1].startswith("2 of the 4 slices of the full campaign. Measured on commit ")
    whole = progress(1.0)
    whole.measure(1.0)
    assert measured == [(0, 7), (1, 7), (2, 7), (3, 7)]
    assert whole.n_done("a") == 4
    # Numbers add up; what is the same must be so in each; complaints are joined.
    assert whole.section("a")[0] == [(1 + 2 + 3 + 4, False, "slice 2")]


def test_what_is_furthest_behind_is_measured_next(tmp_path):
    order = []
    campaigns = {
        "a": Campaign(4, lambda number, seed: order.append("a") or {}, lambda tally: []),
        "b": Campaign(2, lambda number, seed: order.append("b") or {}, lambda tally: []),
    }
    Progress(campaigns, 1.0, 0, Kept(None)).measure(1.0)
    assert order == ["a", "b", "a", "a", "b", "a"]
