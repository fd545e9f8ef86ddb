"""A shop with categories, dates, missing values, words and bots, whose users meet the lists of `serve --from-today`."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.feedback import Impression
from online_rank.stream.clicks import User

K, DOCUMENTS, GRADES = 10, 20, (0.6, 0.85)
BRANDS, KINDS, WORDS = 40, 6, 60
_BEGIN, _DAY = dt.datetime(2026, 1, 1), 86_400.0
#: Queries from which the scale of utilities and the thresholds of grades come.
_SCALED_BY = 200


class Query(NamedTuple):
    """Documents, their grades (m,), and the numbers of them alone (m, d) for a model that takes no others."""

    documents: dict[int, dict[str, Any]]
    y: np.ndarray
    numbers: dict[int, dict[str, float]]


class LiveShop:
    """Queries whose truth has a curve, a category, a kind, a date, a missing value, words of a title and two plain numbers.

    Today's score knows the share `known` of the truth; the rest of it is other taste, which no feature tells. With
    `noise`, the other features say nothing of the truth.
    """

    def __init__(self, seed: int, *, known: float = 0.6, noise: bool = False) -> None:
        rng = np.random.default_rng([seed, 93])
        self.known, self.noise = known, noise
        self.brands, self.kinds, self.words = rng.normal(size=BRANDS), rng.normal(size=KINDS), rng.normal(size=WORDS)
        self.popular = 1.0 / np.arange(1.0, BRANDS + 1.0)
        self.popular /= self.popular.sum()
        self.best_price = rng.uniform(-0.7, 0.7)
        many = [self._documents(np.random.default_rng([seed, 95, t]), t)[1] for t in range(_SCALED_BY)]
        parts = np.concatenate(many)
        self.means, self.scales = parts.mean(axis=0), parts.std(axis=0)

    def _documents(self, rng: np.random.Generator, t: int) -> tuple[list[dict[str, Any]], np.ndarray]:
        """Features of documents, and the parts of their utility (m, parts)."""
        m = DOCUMENTS
        brand = rng.choice(BRANDS, m, p=self.popular)
        kind = rng.integers(KINDS, size=m)
        price, margin, clicks = rng.normal(size=m), rng.normal(size=m), rng.exponential(size=m)
        age = rng.exponential(20.0, size=m)
        rating = np.clip(rng.normal(3.8, 0.7, size=m), 1.0, 5.0)
        rating[rng.random(m) < 0.3] = np.nan
        words = rng.integers(WORDS, size=(m, 4))
        parts = np.column_stack(
            (
                -((price - self.best_price) ** 2),
                self.brands[brand],
                self.kinds[kind],
                -np.log1p(age / 5.0),
                np.where(np.isnan(rating), -0.8, rating - 3.8),
                self.words[words].sum(axis=1),
                margin,
                np.log1p(clicks),
            )
        )
        features = (brand, kind, price, margin, clicks, age, rating, words)
        return _told(rng, t, *([each[rng.permutation(m)] for each in features] if self.noise else features)), parts

    def query(self, rng: np.random.Generator, t: int) -> Query:
        """One query."""
        told, parts = self._documents(rng, t)
        truth = ((parts - self.means) / self.scales).sum(axis=1) / np.sqrt(parts.shape[1])
        today = self.known * truth + np.sqrt(1.0 - self.known**2) * rng.normal(size=len(truth))
        utility = truth + 0.3 * rng.normal(size=len(truth))
        y = np.searchsorted(np.quantile(utility, GRADES), utility)
        for own, score in zip(told, today, strict=True):
            own["score"] = float(score)
        documents = dict(enumerate(told))
        numbers = {i: {k: v for k, v in own.items() if isinstance(v, float)} for i, own in documents.items()}
        return Query(documents, y, numbers)

    def queries(self, seed: int, n: int, first: int = 0) -> Iterator[Query]:
        """n queries, one after the other."""
        rng = np.random.default_rng([seed, n, 96])
        return (self.query(rng, first + t) for t in range(n))


def _told(rng: np.random.Generator, t: int, *features: np.ndarray) -> list[dict[str, Any]]:
    """The features of documents as a shop sends them: numbers, a date, texts, and no rating of some."""
    brand, kind, price, margin, clicks, age, rating, words = features
    now, told = _BEGIN + dt.timedelta(seconds=30.0 * t), []
    for i in range(len(price)):
        own: dict[str, Any] = {
            "price": round(float(np.exp(3.0 + price[i])), 2),
            "brand": f"brand {brand[i]}",
            "kind": f"kind-{kind[i]}",
            "published": (now - dt.timedelta(days=float(age[i]))).isoformat(timespec="seconds"),
            "margin": float(margin[i]),
            "clicks": float(clicks[i]),
            "title": " ".join(f"w{word}" for word in words[i]) + f" n{rng.integers(10_000)}",
        }
        if not np.isnan(rating[i]):
            own["rating"] = float(rating[i])
        told.append(own)
    return told


class Crowd(NamedTuple):
    """Users of a shop, of whom a share of `bots` click each document with probability .3."""

    who: User
    bots: float = 0.03
    seed: int = 0

    def clicks(self, shown: Impression, y: np.ndarray, t: int) -> Any:
        """Clicks on a list."""
        rng = np.random.default_rng([self.seed, t, 97])
        if rng.random() < self.bots:
            return shown.clicked([document for document in shown.order if rng.random() < 0.3])
        return self.who.clicks(shown, y, t)


def worth(y: np.ndarray, order: Sequence[Any]) -> float:
    """DCG@10 of a list."""
    gains = 2.0 ** y[list(order[:K])] - 1.0
    return float((gains / np.log2(np.arange(2.0, len(gains) + 2.0))).sum())


def ndcg(rank: Any, queries: Sequence[Query]) -> float:
    """The mean NDCG@10 of a function that ranks a query."""
    return float(np.mean([worth(q.y, rank(q)) / worth(q.y, np.argsort(-q.y)) for q in queries]))
