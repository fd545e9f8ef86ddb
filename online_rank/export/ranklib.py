"""Reads linear models in RankLib's text format."""

import math
import re

from online_rank import arguments

#: Header of RankLib's linear models: "## Linear Regression", "## Coordinate Ascent".
_HEADER = re.compile(r"##\s*(Linear Regression|Coordinate Ascent)\s*$")


def from_ranklib(text: str, *, n_features: int | None = None) -> list[float]:
    r"""The weights of a linear RankLib model: "Linear Regression" or "Coordinate Ascent".

    Parameters
    ----------
    text
        The text of a model file of RankLib.
    n_features
        d; None for the largest feature number in the text. Features missing in the text have weight 0.

    Returns
    -------
    The d weights of features 1..d, without the constant. `PerceptronRanker.from_weights` takes them.

    Raises
    ------
    ValueError
        The text is not one of these models, or a weight is not a finite number.

    Examples
    --------
    >>> from_ranklib("## Coordinate Ascent\n## Restart = 5\n1:0.25 3:-0.75")
    [0.25, 0.0, -0.75]
    """
    arguments.integer("n_features", n_features, 0, optional=True)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or not _HEADER.match(lines[0]):
        first = lines[0][:60] if lines else ""
        raise ValueError(f"not a linear RankLib model: the first line is {first!r}, not '## Linear Regression' or the like")
    rows = [line for line in lines if not line.startswith("#")]
    if len(rows) != 1:
        raise ValueError(f"a linear RankLib model has one line of weights; this one has {len(rows)}")
    weights: dict[int, float] = {}
    for pair in rows[0].partition("#")[0].split():
        number, value = _pair(pair)
        if number in weights:
            raise ValueError(f"feature {number} has two weights")
        weights[number] = value
    largest = max(weights, default=0)
    d = largest if n_features is None else n_features
    if largest > d:
        raise ValueError(f"the model has feature {largest}, but n_features is {d}")
    return [weights.get(j, 0.0) for j in range(1, d + 1)]


def _pair(pair: str) -> tuple[int, float]:
    number, _, value = pair.partition(":")
    try:
        found = int(number), float(value)
    except ValueError:
        raise ValueError(f"{pair[:40]!r} is not feature:weight") from None
    if not 0 <= found[0] <= 1_000_000 or not math.isfinite(found[1]):
        raise ValueError(f"{pair[:40]!r} is not a feature number from 0 to 1,000,000 with a finite weight")
    return found
