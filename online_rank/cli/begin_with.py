"""`online-rank train --begin-with`: learning begins with the ranking of a model of LightGBM or XGBoost."""

from collections.abc import Iterator, Sequence
from typing import Any

from online_rank.base import ranker_of


def begun_with(file: str, ranker: Any, measure: str) -> Any:
    """A blend of a ranker and of the trees in a file, on which half of the prior is."""
    from online_rank import BlendRanker, FixedTrees

    return BlendRanker([ranker, FixedTrees.from_file(file, measure=measure)], measure=measure, prior=(0.0, 0.5))


def differences(file: str, model: Any, source: Any, files: Sequence[str]) -> Iterator[str]:
    """Lines about features that trees of a model split by, and the files lack. Raises ValueError if no feature can match."""
    trees = ranker_of(model).learners[1]
    names = trees.feature_names
    if source.is_letor and names is not None:
        raise ValueError(f"--begin-with {file}: its features have names, {names[0]} ...; features of LETOR text have numbers")
    if source.is_letor:
        return
    if names is None:
        raise ValueError(
            f"--begin-with {file}: its features have no names, and features of {files[0]} do: train it with names "
            "(feature_name= of LightGBM, feature_names= of XGBoost)"
        )
    lacking = [name for name in trees.used_features if name not in source.plan.features]
    if lacking:
        yield f"--begin-with {file}: {files[0]} lacks features of its splits, which count as missing: {', '.join(lacking)}"
