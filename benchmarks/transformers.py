"""Which of river's transformers and operators work on queries, are saved and are served, and what does lifting them cost?

    python -m benchmarks.transformers [--queries 1000] [--later 10000]

The tables come from trying: a `PerceptronRanker` behind the lifted transformer learns queries, is saved and loaded, and answers
requests of a `RankingService`. Times are processor times of `learn_one` of queries of ten documents with ten new items, at
first and at the end, next to river alone, which learns and transforms the same documents one by one.
"""

import datetime as dt
import inspect
import json
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from river import base, compose, feature_extraction, feature_selection, preprocessing, stats, utils

from benchmarks._common import environment, parser, save, table
from online_rank import ForEachDocument, PerceptronRanker, register
from online_rank.serving import RankingService
from online_rank.storage.files import from_bytes, to_bytes


@register("benchmarks.total")
def total(x: dict[str, Any]) -> dict[str, float]:
    """A function that files know by its name."""
    return {"total": x["a"] + x["b"]}


#: How a class is made, if it needs arguments, or other features than two numbers and a category.
_MADE: dict[str, Callable[[], Any]] = {
    "Agg": lambda: feature_extraction.Agg(on="a", by=["kind"], how=stats.Mean()),
    "BagOfWords": lambda: feature_extraction.BagOfWords(on="text"),
    "Discard": lambda: compose.Discard("kind", "text"),
    "FuncTransformer": lambda: compose.FuncTransformer(total),
    "GapEncoder": lambda: preprocessing.GapEncoder(on="text"),
    "Grouper": lambda: compose.Grouper(compose.Select("a") | preprocessing.StandardScaler(), by="kind"),
    "OneHotEncoder": lambda: compose.Select("kind") | preprocessing.OneHotEncoder(),
    "OrdinalEncoder": lambda: compose.Select("kind") | preprocessing.OrdinalEncoder(),
    "PoissonInclusion": lambda: _numbers() | feature_selection.PoissonInclusion(p=0.5, seed=1),
    "Prefixer": lambda: _numbers() | compose.Prefixer("raw "),
    "Renamer": lambda: _numbers() | compose.Renamer({"a": "first"}),
    "Select": lambda: compose.Select("a"),
    "SelectKBest": lambda: _numbers() | feature_selection.SelectKBest(stats.PearsonCorr(), k=1),
    "SelectType": lambda: compose.SelectType(float),
    "StatImputer": lambda: _numbers() | preprocessing.StatImputer(("a", stats.Mean())),
    "Suffixer": lambda: _numbers() | compose.Suffixer(" raw"),
    "TFIDF": lambda: feature_extraction.TFIDF(on="text"),
    "TargetAgg": lambda: feature_extraction.TargetAgg(by="kind", how=stats.Mean()),
    "TransformerProduct": lambda: compose.Select("a") * compose.Select("b"),
    "TransformerUnion": lambda: compose.Select("a") + compose.Select("b"),
}

OPERATORS: dict[str, Callable[[], Any]] = {
    "`Select`": _MADE["Select"],
    "`+`": lambda: compose.Select("a") + (compose.Select("b") | preprocessing.StandardScaler()),
    "`*`": lambda: compose.Select("a") * (compose.Select("b") | preprocessing.StandardScaler()),
    '`* "kind"`, `Grouper`': lambda: (compose.Select("a") | preprocessing.StandardScaler()) * "kind",
    r"`\|`": lambda: _numbers() | preprocessing.StandardScaler() | feature_extraction.PolynomialExtender(2),
    "`Prefixer`": _MADE["Prefixer"],
    r"`+` in `\|`": lambda: (compose.Select("a") + compose.Select("b")) | preprocessing.MinMaxScaler(),
    "`+` with a function": lambda: compose.Select("a") + compose.FuncTransformer(total),
    "`utils.TimeRolling`": lambda: feature_extraction.TargetAgg(by="kind", how=_hour()),
}


def _hour() -> Any:
    return utils.TimeRolling(stats.Mean, period=dt.timedelta(hours=1))


def _numbers() -> Any:
    return compose.Select("a", "b")


def classes() -> dict[str, Callable[[], Any]]:
    """A maker of each transformer of river, by name."""
    found: dict[str, Callable[[], Any]] = {}
    for module in (compose, feature_extraction, feature_selection, preprocessing):
        for name, cls in sorted(vars(module).items()):
            if inspect.isclass(cls) and issubclass(cls, base.Transformer | base.SupervisedTransformer):
                found[name] = _MADE.get(name, lambda cls=cls: _numbers() | cls())
    return found


def query(t: int) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
    """A query with numbers, a category and a text."""
    x = {
        f"d{i}": {"a": 1.0 + (t * i) % 5, "b": 0.5 * i - t % 3, "kind": "xyz"[(t + i) % 3], "text": f"word{i} and word{t % 4}"}
        for i in range(4)
    }
    return x, {name: (t + i) % 3 for i, name in enumerate(x)}


def tried(make: Callable[[], Any]) -> tuple[str, str, str]:
    """Whether a transformer works, is saved and is served: yes, or the reason."""
    try:
        model = ForEachDocument(make()) | PerceptronRanker()
        for t in range(5):
            x, y = query(t)
            model.learn_one(x, y, **({"at": 60.0 * t} if model.abilities.takes_time else {}))
        model.rank_one(query(9)[0])
    except Exception as error:
        return _said(error), "", ""
    try:
        again = from_bytes(to_bytes(model))
        is_saved = "yes" if again.predict_one(query(9)[0]) == model.predict_one(query(9)[0]) else "other scores"
    except Exception as error:
        is_saved = _said(error)
    try:
        service = RankingService(model)
        x, y = query(6)
        for request in ({"id": "q", "ts": 600.0, "docs": x}, {"id": "q", "ts": 601.0, "grades": y}):
            answer = service.handle(json.dumps(request).encode()).answer
            if "error" in answer:
                raise ValueError(answer["error"])
        is_served = "yes" if is_saved == "yes" else "without a state directory"
    except Exception as error:
        is_served = _said(error)
    return "yes", is_saved, is_served


def _said(error: Exception) -> str:
    """Why not, in a few words."""
    text = str(error)
    if "it is of type river" in text or "TimeRolling" in text:
        return "no: its state is not declared in `storage.river_classes`"
    return f"no: {text.splitlines()[0][:120]}".replace("|", r"\|")


def tables() -> str:
    """Both tables, as Markdown."""
    header = ("", "works", "saved", "served")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [(f"`{name}`", *tried(make)) for name, make in classes().items()]
        joined = [(name, *tried(make)) for name, make in OPERATORS.items()]
    return f"## Transformers\n\n{table(header, made)}\n\n## Operators\n\n{table(header, joined)}\n"


#: What is timed.
TIMED: dict[str, Callable[[], Any]] = {
    "`TargetAgg`": lambda: feature_extraction.TargetAgg(by="item", how=stats.BayesianMean(prior=1.0, prior_weight=1.0)),
    "`TFIDF`": lambda: feature_extraction.TFIDF(on="text"),
    "`OrdinalEncoder`": lambda: compose.Select("item") | preprocessing.OrdinalEncoder(),
    "`OneHotEncoder`": lambda: compose.Select("kind") | preprocessing.OneHotEncoder(),
    "`StandardScaler`": lambda: compose.Select("size") | preprocessing.StandardScaler(),
}
#: How many queries are the first, and the last.
_FEW, _DOCUMENTS = 50, 10


def queries(n: int) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
    """Queries of ten documents, each about a new item, with a text, a category and a number."""
    rng = random.Random(0)
    for t in range(n):
        documents = [
            {
                "item": f"item {_DOCUMENTS * t + i}",
                "text": f"word{rng.randrange(10**6)} word{rng.randrange(100)} and more words",
                "kind": f"kind {min(t, 1000) * (i == 0)}",
                "size": 10.0 * rng.random(),
            }
            for i in range(_DOCUMENTS)
        ]
        yield documents, [i % 3 for i in range(_DOCUMENTS)]


def alone(transformer: Any, x: list[dict[str, Any]], y: list[int]) -> None:
    """What river alone does with a query, document by document."""
    if not transformer._supervised:
        for document in x:
            transformer.learn_one(document)
    for document in x:
        transformer.transform_one(document)
    if transformer._supervised:
        for document, grade in zip(x, y, strict=True):
            transformer.learn_one(document, grade)


def times(make: Callable[[], Any], n: int) -> list[list[float]]:
    """Milliseconds of each of n queries, lifted and alone."""
    lifted, plain = ForEachDocument(make()), make()
    spent: list[list[float]] = [[], []]
    for x, y in queries(n):
        for own, run in zip(spent, (lifted.learn_one, partial(alone, plain)), strict=True):
            started = time.process_time()
            run(x, y)
            own.append(1e3 * (time.process_time() - started))
    return spent


def speed(n: int, later: int) -> str:
    """The section on time, as Markdown."""
    rows = []
    for name, make in TIMED.items():
        lifted, plain = times(make, later)
        parts = lifted[5 : 5 + _FEW], lifted[n - _FEW : n], lifted[-_FEW:], plain[-_FEW:]
        medians = [statistics.median(part) for part in parts]
        rows.append([name, *(f"{ms:.3f}" for ms in medians), f"{medians[2] / medians[3]:.1f}"])
    header = ["", "at first", f"after {n:,}", f"after {later:,}", "river alone, then", "times river alone"]
    return f"## Time\n\nms a query of ten documents, `learn_one`. {environment()}.\n\n{table(header, rows)}\n"


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=1000)
    arguments.add_argument("--later", type=int, default=10_000)
    given = arguments.parse_args()
    text = f"{tables()}\n{speed(given.queries, given.later)}"
    save("transformers", f"# River's transformers on queries\n\n{text}", part=True)
