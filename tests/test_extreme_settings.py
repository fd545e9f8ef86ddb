"""An object learns with all arguments that its constructor accepts, and its file is read back."""

import inspect
import random
import re
import warnings

import numpy as np
import pytest

from online_rank import PerceptronRanker
from online_rank.base.step import QueryStep
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.objects import name_of
from online_rank.support import registry
from tests.campaigns.files import is_own
from tests.models import BASES, HAS_TORCH, arguments_of

EXTREMES = [0, 0.0, -1.0, 5e-324, 1e-100, 1e-30, 1e30, 1e100, 1e308, 2**31, 2**53, 2**63 - 1, 2**63, 10**400, float("nan")]
EXTREMES += [np.float32(0.5), np.int64(7)]
X, Y = np.random.default_rng(0).normal(size=(6, 3)), [0, 1, 2, 1, 0, 2]
NAMED = [dict(zip("abc", row, strict=True)) for row in X.tolist()]


#: Arguments that tests of other contracts leave out.
MORE = {
    "Challenge": {"model": PerceptronRanker()},
    "RankingService": {"model": PerceptronRanker()},
    "Surrogate": {"name": "logistic"},
    "TeamDraft": {"a": "one", "b": "other"},
}


def arguments(cls):
    return MORE.get(cls.__name__) or arguments_of(cls)[0]


def cases():
    """Each parameter of each public class that may be a number, with each extreme value."""
    for name in registry.classes():
        cls = registry.public_class(name)
        if inspect.isabstract(cls) or cls in BASES or name_of(cls) is None or issubclass(cls, tuple):
            continue
        if name == "TorchRanker" and not HAS_TORCH:
            continue
        for parameter in inspect.signature(cls).parameters.values():
            if {*re.findall(r"\w+", str(parameter.annotation))} & {
                "int",
                "float",
                "Any",
            } and parameter.kind != parameter.VAR_KEYWORD:
                yield from ((cls, parameter.name, value) for value in EXTREMES)


def goes_on(cls, name, value):
    """Make the object, let it learn, and write it; whether it was made."""
    given = {**arguments(cls), name: value}
    try:
        made = cls(**given)
    except (TypeError, ValueError):
        return False
    for _ in range(12 if isinstance(made, QueryStep) else 0):
        try:
            if getattr(getattr(made, "abilities", None), "draws", False):
                made.learn_one(NAMED, made.show_one(NAMED).clicked([2]))
            else:
                made.learn_one(NAMED, Y)
        except ValueError as error:
            if not is_own(error):
                raise
    content = to_bytes(made)
    assert to_bytes(from_bytes(content)) == content
    return True


def check(chosen):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cls, name, value in chosen:
            try:
                goes_on(cls, name, value)
            except Exception as error:
                wrong.append(f"{cls.__name__}({name}={value!r:.30}): {error!r:.200}")
    assert not wrong, "\n".join(wrong)


def test_some_extreme_settings():
    check(random.Random(0).sample([*cases()], 60))


@pytest.mark.slow
def test_all_extreme_settings():
    check(cases())


@pytest.mark.parametrize(
    "case",
    [
        ("BlendRanker", "rate", 5e-324),
        ("PerceptronRanker", "relative_margin", 1e308),
        ("DirectRanker", "learning_rate", 1e308),
        ("DirectRanker", "l2", 1e308),
    ],
    ids=str,
)
def test_settings_with_which_no_model_could_be_saved_are_refused(case):
    name, parameter, value = case
    assert not goes_on(registry.public_class(name), parameter, value)
