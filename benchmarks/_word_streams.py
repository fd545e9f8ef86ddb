"""Streams whose documents have words, or levels that come and go."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

#: Documents, their grades, and the segment of the query.
Worded: TypeAlias = tuple[list[dict[str, Any]], list[int], str]
#: Documents and their grades.
Graded: TypeAlias = tuple[list[dict[str, str]], list[int]]
#: Documents, their grades, and what each is worth.
Levelled: TypeAlias = tuple[list[dict[str, Any]], list[int], np.ndarray]

#: Words and brands of `titles`, and of a title the words that are drawn.
_WORDS, _BRANDS, _SEGMENTS, _OF_TITLE = 3000, 150, 6, 12
#: Grades 1 to 4 begin above these shares of all scores.
_SHARES = (0.70, 0.85, 0.94, 0.985)


def titles(seed: int, n: int, m: int = 40) -> Iterator[Worded]:
    """Titles of words in a long tail, brands in one too, a price, and segments of users who like other brands.

    A score is the sum of the weights of the words, the brand's, the brand's in the segment, and -.4 log(price), with noise .3.
    """
    rng = np.random.default_rng(2000 + seed)
    often = 1.0 / (np.arange(_WORDS) + 5.0)
    often /= often.sum()
    of_words = rng.normal(size=_WORDS) * (rng.random(_WORDS) < 0.3)
    of_brands = rng.normal(size=_BRANDS) * 0.8
    of_segments = rng.normal(size=(_SEGMENTS, _BRANDS)) * 1.2
    brands_often = 1.0 / (np.arange(_BRANDS) + 3.0)
    brands_often /= brands_often.sum()

    def draw(k: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        words = [np.unique(rng.choice(_WORDS, _OF_TITLE, p=often)) for _ in range(k)]
        return words, rng.choice(_BRANDS, k, p=brands_often), rng.lognormal(3.0, 1.0, k)

    def score(words: list[np.ndarray], brands: np.ndarray, segments: Any, prices: np.ndarray) -> np.ndarray:
        of_titles = np.array([of_words[own].sum() for own in words])
        scores: np.ndarray = of_titles + of_brands[brands] + of_segments[segments, brands] - np.log(prices) * 0.4
        return scores

    words, brands, prices = draw(6000)
    cuts = np.quantile(score(words, brands, rng.integers(0, _SEGMENTS, 6000), prices), _SHARES)
    for _ in range(n):
        segment = int(rng.integers(_SEGMENTS))
        words, brands, prices = draw(m)
        scores = score(words, brands, segment, prices)
        grades = np.searchsorted(cuts, scores + 0.3 * rng.normal(size=m)).tolist()
        x = [
            {"brand": f"b{brand}", "price": price, "title": " ".join(f"w{word}" for word in own)}
            for brand, price, own in zip(brands.tolist(), prices.tolist(), words, strict=True)
        ]
        yield x, grades, f"s{segment}"


def brands(seed: int, n: int, in_use: int, each: int = 0, m: int = 20) -> Iterator[Levelled]:
    """Documents of equally frequent brands, of which a tenth is replaced by new ones after `each` queries; 0 for never.

    A brand is worth a normal number. Grades 1 and 2 begin at 0 and 1, of the worth with noise .5.
    """
    rng = np.random.default_rng(3000 + seed)
    own, worth = np.arange(in_use), rng.normal(size=in_use)
    for t in range(n):
        if each and t and t % each == 0:
            gone = rng.choice(in_use, in_use // 10, replace=False)
            own[gone] = own.max() + 1 + np.arange(len(gone))
            worth[gone] = rng.normal(size=len(gone))
        drawn = rng.integers(0, in_use, m)
        grades = np.searchsorted([0.0, 1.0], worth[drawn] + 0.5 * rng.normal(size=m)).tolist()
        yield [{"brand": f"b{brand}"} for brand in own[drawn].tolist()], grades, worth[drawn]


def open_titles(
    seed: int, n: int, vocabulary: int, m: int = 5, words: int = 6
) -> Iterator[tuple[list[dict[str, str]], list[int]]]:
    """Titles whose words are drawn from a large vocabulary, all equally often; half of the words are worth something."""
    rng = np.random.default_rng(4000 + seed)
    worth = rng.normal(size=vocabulary) * (rng.random(vocabulary) < 0.5)
    for _ in range(n):
        drawn = rng.integers(0, vocabulary, (m, words))
        grades = np.searchsorted([-1.0, 1.0], worth[drawn].sum(axis=1)).tolist()
        yield [{"title": " ".join(f"w{word}" for word in own)} for own in drawn.tolist()], grades
