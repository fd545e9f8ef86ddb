"""Signs of weights behind transformers: whether what holds for columns holds for the features of which they are made."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from online_rank.base.anatomy import steps_of

Signs = Mapping[Any, int]


def signs_of_features(model: Any) -> list[Signs]:
    """The signs of the features that the user gives, for each ranker with signs inside a model.

    Raises
    ------
    TypeError
        Signs go through a step whose columns do not rise with one feature each.
    ValueError
        Only some of the columns made of a feature have its sign.
    """
    *transformers, last = steps_of(model)
    if inside := getattr(last, "_wrapped", ()):
        found = [signs for inner in inside for signs in signs_of_features(inner)]
    else:
        own = getattr(last, "signs", None)
        found = [own] if isinstance(own, Mapping) else []
    for step in reversed(transformers):
        found = [_before(step, signs) for signs in found]
    return found


def signs_of_columns(transformers: Sequence[Any], signs: Signs) -> dict[Hashable, int]:
    """The signs of the columns behind transformers, from signs of features. Raises TypeError as `signs_of_features` does."""
    for step in transformers:
        signs = {column: sign for feature, sign in signs.items() for column in _columns(step, feature)}
    return dict(signs)


def _columns(step: Any, feature: Hashable) -> tuple[Hashable, ...]:
    columns = step._rising(feature)
    if columns is None:
        raise TypeError(
            f"signs names {feature!r}, but the columns of {type(step).__name__} may fall as the feature rises: a sign would "
            "say nothing about it. Signs hold behind StreamScaler, MaxAbsStreamScaler, StreamQuantileMap "
            "and QueryNormalizer"
        )
    return columns


def _before(step: Any, signs: Signs) -> Signs:
    """The signs of the features of which a transformer makes columns with these signs."""
    features = {step._naming.feature_of(column): sign for column, sign in signs.items()}
    for feature, sign in features.items():
        columns = _columns(step, feature)
        if any(signs.get(column) != sign for column in columns):
            wanted = ", ".join(f"{column!r}: {sign}" for column in columns)
            raise ValueError(
                f"{type(step).__name__} makes several columns of {feature!r}, and its sign holds only if all have it: "
                f"signs={{{wanted}}}"
            )
    return features
