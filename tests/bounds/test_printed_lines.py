"""Every line of a certificate: its number is what its label says, evaluated from what is printed."""

import math
import re

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickPerceptron,
    LossTracker,
    PerceptronRanker,
    PlackettLuce,
    RidgeRanker,
    SlamRanker,
    VectorRanker,
)
from online_rank.bounds import certificate_of
from online_rank.bounds.certificate import BoundCheck, Certificate
from online_rank.bounds.declaration import BOUNDS, declared
from online_rank.stream.synth import NoisyTeacher

_NUMBER = r"-?[\d.,]+(?:e[-+]?\d+)?"
_IN_EXPECTATION = ", in expectation over the draws, if grades do not depend on them"


def number(text):
    return float(text.rstrip(",.").replace(",", ""))


def printed_terms(text):
    """The terms of a printed certificate by their symbols; u_T and F stand for the comparators of a path."""
    flat = re.sub(r"\s+", " ", text)
    run, _, _ = flat.partition(" the loss is at most ")
    terms = {}
    if listed := re.search(r"terms of the bounds (.*?)(?= draws | the loss is at most )", flat):
        terms = {name: number(value) for name, value in re.findall(rf"([^=]+?) = ({_NUMBER})(?:, |$)", listed[1])}
    for name, pattern in {"F(u)": r"comparator F\(u\)", "f(u)": r", f\(u\)", "||u||": ", norm", "N": "of N ="}.items():
        if (found := re.search(rf"{pattern} ({_NUMBER})", run)) is not None:
            terms[name] = number(found[1])
    assert terms
    same = {"F": "F(u)", "||u_T||": "||u||", "<u_T, w>": "<u, w>"}
    terms |= {name: terms[other] for name, other in same.items() if other in terms}
    return terms | {"loss": number(re.search(rf"(?:cumulative loss|estimated cost) ({_NUMBER})", flat)[1])}


def printed_bounds(text):
    """The labels of the bounds with their values and slacks; a long label continues in the next lines."""
    found, lines = [], text.split("\n  the loss is at most")[1].splitlines()[1:]
    for line in lines:
        if got := re.fullmatch(rf"  (\S.*?) {{2,}}({_NUMBER}) +({_NUMBER})  .*", line):
            found.append([got[1], number(got[2]), number(got[3])])
        elif line.startswith("    ") and found and not found[-1][0].endswith((_IN_EXPECTATION, "luck", "of [CT]")):
            found[-1][0] += " " + line.strip()
        else:
            break
    return found


def evaluated(label, terms):
    """The value of a label, whose products are written without a sign, as in 4 B (1 + 2 beta)."""
    formula = label.removesuffix(_IN_EXPECTATION).partition(", at u = w_1")[0]
    formula = re.sub(r", (Theorem|Corollary) \d of \[CT\]", "", formula)
    values = {**terms, "ln N": math.log(terms.get("N", 1.0)), "e": math.e}
    symbols = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    tokens = re.findall(rf"{symbols}|sqrt|\d+|[-+/^()]|\S", formula)
    # "e" begins no symbol, and a letter that is no symbol fails below.
    code, before = [], ""
    for token in tokens:
        if before and (before == ")" or before in values or before.isdigit()) and (token in values or token in ("(", "sqrt")):
            code.append("*")
        code.append(f"({values[token]!r})" if token in values else {"^": "**", "sqrt": "math.sqrt"}.get(token, token))
        before = token
    return eval(" ".join(code), {"math": math})


def assert_measurements_agree(flat, terms, lines):
    """The lines above the bounds that follow from others: regret, F(u) / V, the limit without a comparator, the duality gap."""
    if found := re.search(rf"regret ({_NUMBER}): the loss less L\*; the first bound allows ({_NUMBER})", flat):
        least = number(re.search(rf"L\* = ({_NUMBER})", flat)[1])
        rounded = 2e-3 * (1.0 + number(found[1]))
        assert number(found[1]) == pytest.approx(terms["loss"] - least, abs=rounded)
        assert number(found[2]) == pytest.approx(lines[0][1] - least, abs=rounded)
    mass = re.search(rf"mass V ({_NUMBER})", flat)
    if mass and (found := re.search(rf"F\(u\) / V ({_NUMBER})", flat)):
        assert number(found[1]) == pytest.approx(terms["F(u)"] / number(mass[1]), rel=1e-3)
    limit = re.search(rf"below 1 - ({_NUMBER}) U on these pairs, none a margin above ({_NUMBER})", flat)
    if limit is not None:
        assert limit[1] == limit[2].rstrip(",.")
    if found := re.search(rf"duality gap ({_NUMBER}): ", flat):
        w = number(limit[1]) * number(mass[1])
        wanted = max(0.0, terms["F(u)"] + terms["||u||"] * w - number(mass[1]))
        assert number(found[1]) == pytest.approx(wanted, rel=2e-3, abs=2e-3 * terms["||u||"] * w)
    if found := re.search(rf" lost ({_NUMBER}), so the loss is at most ({_NUMBER})", flat):
        assert number(found[1]) < number(found[2])


def assert_lines_are_their_labels(certificate, n_lines):
    text = str(certificate)
    terms, lines = printed_terms(text), printed_bounds(text)
    assert len(lines) == n_lines, text
    assert_measurements_agree(re.sub(r"\s+", " ", text), terms, lines)
    for label, value, slack in lines:
        assert value == pytest.approx(evaluated(label, terms), rel=2e-5), label
        assert slack == pytest.approx(value - terms["loss"], abs=2e-5 * (abs(value) + terms["loss"]))


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


def tracked(ranker, feed=None, certificate=None, **options):
    """The certificate of a ranker that has learned 60 queries, against weights that are near the teacher's."""
    tracker = LossTracker(ranker, {"u": np.array([1.0, -1.0, 0.5, 0.0, 0.2])}, **options)
    for number_, (X, y) in enumerate(NoisyTeacher(60, n_features=5, n_documents=10, seed=0)):
        (feed or LossTracker.learn_one)(tracker, X, y, **({"t": number_} if feed else {}))
    return tracker.certificate("u", **(certificate or {}))


def learn_as_served(tracker, X, y, t):
    tracker.learn_one(X, y, served=tracker.predict_one(X) if t else np.zeros(len(y)))


def learn_against_a_path(tracker, X, y, t):
    tracker.learn_one(X, y)
    if t % 20 == 10:
        tracker.move_comparator("u", np.array([1.0, -1.0, 0.5, t / 60.0, 0.2]))


def clicked():
    tracker = LossTracker(ClickPerceptron(PlackettLuce(k=5, seed=4), half_life=0), {"u": np.array([1.0, -1.0, 0.5, 0.0, 0.2])})
    for X, y in NoisyTeacher(60, n_features=5, n_documents=10, seed=0):
        shown = tracker.show_one(X)
        tracker.learn_one(X, shown.clicked([i for i in shown.order if y[i] > 0][:1]))
    return tracker.certificate("u")


def of_vectors():
    rng = np.random.default_rng(0)
    model = VectorRanker()
    for _ in range(60):
        D, q = rng.normal(size=(6, 4)), rng.normal(size=4)
        model.learn_one(D, np.argsort(np.argsort(D @ q)) // 2, context={"embedding": q})
    return certificate_of(model)


@pytest.mark.parametrize(
    ("certified", "n_lines"),
    [
        (lambda: certificate_of(taught(AdditiveRanker())), 1),
        (lambda: certificate_of(taught(AdditiveRanker(trees=0))), 3),
        (lambda: certificate_of(taught(BlendRanker([PerceptronRanker(), RidgeRanker()]))), 3),
        (lambda: certificate_of(taught(BlendRanker([PerceptronRanker(), RidgeRanker()], prior=(0.9, 0.0), rate=0.5))), 3),
        (lambda: certificate_of(against_what_is_served(two_that_disagree())), 3),
        (lambda: tracked(PerceptronRanker()), 3),
        (lambda: tracked(PerceptronRanker(credit="spread")), 4),
        (lambda: tracked(PerceptronRanker(norm_cap=0.5)), 2),
        (lambda: tracked(PerceptronRanker.from_weights([1.0, 0.5, 0.0, 0.0, 0.0])), 3),
        (lambda: tracked(PerceptronRanker(half_life=0), learn_as_served, {"delay": 2}), 3),
        (lambda: tracked(PerceptronRanker(half_life=5.0, served="average")), 3),
        (lambda: tracked(PerceptronRanker(), learn_against_a_path), 3),
        (lambda: tracked(SlamRanker(learning_rate=0.1)), 5),
        (lambda: tracked(SlamRanker(learning_rate=1e-5)), 7),
        (clicked, 2),
        (of_vectors, 2),
    ],
    ids=[
        "default", "curves", "blend", "blend with a prior", "graded against what is served", "perceptron", "spread", "cap",
        "beginning", "served", "average", "path", "slam", "slam of the theorem", "clicks", "vectors",
    ],
)  # fmt: skip
def test_the_number_of_each_line_is_its_label(certified, n_lines):
    assert_lines_are_their_labels(certified(), n_lines)


#: Facts that any bound may take; luck and the gap of serving may be below 0.
FACTS = {
    "comparator_loss": 2.0, "surrogate_loss": 2.5, "norm": 3.0, "squared_gradient_norms": 7.0, "margin_mass": 0.5, "delay": 3,
    "inner_product": 1.25, "half_life": 4.0, "path_length": 0.5, "path_product": 0.1, "cap": 0.5, "largest_norm": 4.0,
    "n_machines": 3, "projection_error": 0.1, "tolerance": 0.2, "weight_norm": 1.5, "beginning_norm": 1.0, "step": 0.5,
    "beginning_product": -0.1, "distance": 1.1, "best_loss": 2.25, "prior_cost": 1.75, "mixability_gap": 0.3, "rate": 0.9,
    "serving_gap": -0.2, "n_candidates": 5, "variance": 0.35, "luck": -0.15, "budget": 1.0, "learning_rate": 1e-4,
    "margin": 1.5, "gain_product": -0.3, "rounded": 0.05, "relative_margin": 0.4,
}  # fmt: skip
TOTALS = {
    "n_queries": 9, "n_counted": 9, "loss": 1.5, "R_X": 1.25, "largest_mass": 0.8, "m": 4, "k": 3, "v_max": 5.0,
    "largest_weight": 1.3, "mass": 4.0,
}  # fmt: skip
declared("mass_bound")  # All modules with bounds are imported now.


# No certificate has a line for additive_mass_bound: it prints the mass, and what that says of all comparators.
@pytest.mark.parametrize("name", sorted(BOUNDS.keys() - {"additive_mass_bound"}))
def test_the_statement_of_every_bound_is_its_function(name):
    bound = BOUNDS[name]
    facts = FACTS | ({"best_blend": (1.0,), "members": ("a",), "least_loss": 2.25} if "n_candidates" in bound.needs else {})
    comparator = None
    if "comparator_norm" in bound.needs:
        facts |= {"comparator_norm": 3.0, "squares": 8.0}
    elif "norm" in bound.needs or "comparator_loss" in bound.needs or "surrogate_loss" in bound.needs:
        comparator = "u"
    known = TOTALS | facts
    value = bound.value(**{parameter: known[fact] for parameter, fact in bound.needs.items() if fact in known})
    check = BoundCheck(name, bound.statement, value, value - TOTALS["loss"], "holds")
    not_covered = {} if name == "blend_bound" else {"blend_bound": "covers another run"}
    assert_lines_are_their_labels(Certificate(comparator, {}, TOTALS, facts, (check,), not_covered), 1)


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
