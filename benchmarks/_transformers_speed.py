"""Processor time of lifted transformers, at first and later, as JSON: `python benchmarks/_transformers_speed.py 1000`.

A program by itself, so that the interpreter of an earlier checkout runs it too.
"""

import json
import random
import statistics
import sys
import time

from river import compose, feature_extraction, preprocessing, stats

from online_rank import ForEachDocument

MAKE = {
    "`TargetAgg`": lambda: feature_extraction.TargetAgg(by="item", how=stats.BayesianMean(prior=1.0, prior_weight=1.0)),
    "`TFIDF`": lambda: feature_extraction.TFIDF(on="text"),
    "`OrdinalEncoder`": lambda: compose.Select("item") | preprocessing.OrdinalEncoder(),
    "`OneHotEncoder`": lambda: compose.Select("kind") | preprocessing.OneHotEncoder(),
    "`StandardScaler`": lambda: compose.Select("size") | preprocessing.StandardScaler(),
}
#: How many queries are the first, and the last.
_FEW = 50
_DOCUMENTS = 10


def queries(n):
    """Queries of ten documents, each about a new item, with a text, a category and a number."""
    rng = random.Random(0)
    for t in range(n):
        yield (
            [
                {
                    "item": f"item {_DOCUMENTS * t + i}",
                    "text": f"word{rng.randrange(10**6)} word{rng.randrange(100)} and more words",
                    "kind": f"kind {min(t, 1000) * (i == 0)}",
                    "size": 10.0 * rng.random(),
                }
                for i in range(_DOCUMENTS)
            ],
            [i % 3 for i in range(_DOCUMENTS)],
        )


def alone(transformer, x, y):
    """What river alone does with a query, document by document."""
    if not transformer._supervised:
        for document in x:
            transformer.learn_one(document)
    for document in x:
        transformer.transform_one(document)
    if transformer._supervised:
        for document, grade in zip(x, y, strict=True):
            transformer.learn_one(document, grade)


def measured(make, n):
    """Medians in ms a query over the first queries and over the last ones, lifted and alone."""
    lifted, plain, spent = ForEachDocument(make()), make(), ([], [])
    for x, y in queries(n):
        for times, run in zip(spent, (lifted.learn_one, lambda x, y: alone(plain, x, y)), strict=True):
            started = time.process_time()
            run(x, y)
            times.append(1e3 * (time.process_time() - started))
    return [statistics.median(part) for times in spent for part in (times[5 : 5 + _FEW], times[-_FEW:])]


if __name__ == "__main__":
    print(json.dumps({name: measured(make, int(sys.argv[1])) for name, make in MAKE.items()}))
