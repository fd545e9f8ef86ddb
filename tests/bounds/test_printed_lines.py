"""Every line of a blend's certificate: its number is what its label says, evaluated from what is printed."""

import math
import re

import numpy as np
import pytest

from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, RidgeRanker
from online_rank.bounds import certificate_of
from online_rank.stream.synth import NoisyTeacher

_NUMBER = r"-?[\d.,]+(?:e[-+]?\d+)?"
#: The bounds of blends, as labels state them, in the terms that a certificate prints.
_FORMULAS = {
    "L + c / eta_T + Delta + G": lambda t: t["L"] + t["c"] / t["eta_T"] + t["Delta"] + t["G"],
    "L + c / eta + (1 + c / ln N) (sqrt(2 (e - 2) W ln N) + 1/8) + b + 1": lambda t: (
        t["L"] + t["c"] / t["eta"]
        + (1 + t["c"] / math.log(t["N"])) * (math.sqrt(2 * (math.e - 2) * t["W"] * math.log(t["N"])) + 1 / 8) + t["b"] + 1
    ),
}  # fmt: skip
_IN_EXPECTATION, _ON_THE_PATH = ", in expectation over the draws, if grades do not depend on them", " + luck"


def printed_terms(text):
    """The terms of a printed certificate by their symbols."""
    flat = re.sub(r"\s+", " ", text)
    terms = {name: number(value) for name, value in re.findall(rf"(\w+) = (?:ln\(1/pi\) = )?({_NUMBER})", flat)}
    return terms | {"loss": number(re.search(rf"cumulative loss ({_NUMBER})", flat)[1])}


def number(text):
    return float(text.rstrip(",.").replace(",", ""))


def printed_bounds(text):
    """The labels of the bounds with their values and slacks; a long label continues in the next lines."""
    found, lines = [], text.split("\n  the loss is at most")[1].splitlines()[1:]
    for line in lines:
        if got := re.fullmatch(rf"  (L .*?) {{2,}}({_NUMBER}) +({_NUMBER})  .*", line):
            found.append([got[1], number(got[2]), number(got[3])])
        elif line.startswith("    ") and found and not found[-1][0].endswith(_IN_EXPECTATION):
            found[-1][0] += " " + line.strip()
        else:
            break
    return found


def evaluated(label, terms):
    for formula, value in _FORMULAS.items():
        if label in (formula, formula + _IN_EXPECTATION):
            return value(terms)
        if label == formula + _ON_THE_PATH:
            return value(terms) + terms["luck"]
    raise AssertionError(f"no formula for the line {label!r}")


def against_what_is_served(model, n=600):
    """Grades against every ranking that a model serves, as in the example that a certificate once printed wrongly."""
    X = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for _ in range(n):
        scores = model.predict_one(X)
        model.learn_one(X, [1, 0] if scores[0] <= scores[1] else [0, 1])
    return model


def taught(model, n=60, seed=0):
    for X, y in NoisyTeacher(n, n_features=5, n_documents=10, seed=seed):
        model.learn_one(X, y)
    return model


def two_that_disagree(**options):
    one, other = (PerceptronRanker.from_weights(w) for w in ([1.0, 0.0], [0.0, 1.0]))
    return BlendRanker([one, other], measure="ndcg", grid=4, **options)


@pytest.mark.parametrize(
    ("make", "n_lines"),
    [
        (lambda: taught(AdditiveRanker()), 1),
        (lambda: taught(AdditiveRanker(trees=0)), 3),
        (lambda: taught(BlendRanker([PerceptronRanker(), RidgeRanker()])), 3),
        (lambda: taught(BlendRanker([PerceptronRanker(), RidgeRanker()], prior=(0.9, 0.0), rate=0.5)), 3),
        (lambda: against_what_is_served(two_that_disagree()), 3),
    ],
    ids=["default", "curves", "blend", "blend with a prior", "graded against what is served"],
)
def test_the_number_of_each_line_is_its_label(make, n_lines):
    text = str(certificate_of(make()))
    terms = printed_terms(text)
    terms.setdefault("N", math.nan)
    lines = printed_bounds(text)
    assert len(lines) == n_lines
    for label, value, slack in lines:
        assert value == pytest.approx(evaluated(label, terms), rel=2e-5), label
        assert slack == pytest.approx(value - terms["loss"], abs=2e-5 * value)


def test_luck_is_another_line():
    """Of 600 queries graded against what was served, the formula says less than was lost, as grades depended on the draws."""
    certificate = certificate_of(against_what_is_served(two_that_disagree()))
    told = {check.name: check for check in certificate.bounds}
    assert told["blend_closed_bound"].value < certificate.loss <= told["blend_path_bound"].value
    assert told["blend_closed_bound"].verdict == "exceeded by luck"
    assert certificate.holds


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (AdditiveRanker, {*AdditiveRanker().members, "curves", "averages of leaves", "leaves"}),
        (lambda: BlendRanker([PerceptronRanker(), RidgeRanker()]), {"PerceptronRanker", "RidgeRanker"}),
        (lambda: BlendRanker([RidgeRanker(), RidgeRanker()]), {"RidgeRanker 1", "RidgeRanker 2"}),
    ],
)
def test_members_have_names(make, names):
    rows = {row.name: row.text for row in certificate_of(taught(make())).rows()}
    assert rows["best_member"].split(", ", 1)[1] in names
    mixed = re.sub(r"(?:^|(?<= \+ ))0?\.?\d+ (?=[a-zA-Z])", "", rows["best_blend"].split(": ", 1)[1])
    assert set(mixed.split(" + ")) <= names
