"""Is one curve for each feature, averaged over several half-lives, better than what it replaces, at what cost?

    python -m benchmarks.additive [--other PYTHON] [--part streams drift growth missing shop wide certificate cost size]
                                  [--seeds 3] [--keep FILE]

NDCG@10 of each query before it is learned, one pass. `streams` compares `AdditiveRanker()` with
`StreamQuantileMap() | PerceptronRanker()` on ten groups of streams, and `drift` also with a perceptron with half-life 50, and
with AROW and AdaGrad on pairs behind `StreamQuantileMap()`, each with the best of three settings on another seed. PYTHON is the
interpreter of a checkout that has `BlendRanker("light")`, such as 8e619ce; without it the columns of that blend are left out.
`growth` has a feature that grows with time, `missing` values that are missing, `shop` documents with brands and categories;
LightGBM learns the first half of these, and all are compared on the second. `wide` has thousands of features, `certificate`
shows what certificates say, `cost` processor time next to the perceptron, `size` bytes of a saved model.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._additive_streams import GRADUAL, GROUPS, TURNS, Query, coded, drifting, growing, shop, with_holes
from benchmarks._common import RESULTS, parser, save, table
from benchmarks._development import parts_of
from benchmarks._kept import Kept, add_keep, commit
from benchmarks._models import LambdaMART
from benchmarks._on_pairs import AdaGrad, Arow
from benchmarks._other import add_other, commit_of, scores_of
from online_rank import AdditiveRanker, PerceptronRanker, StreamQuantileMap, measure, plot
from online_rank.bounds import certificate_of
from online_rank.evaluate import Spread
from online_rank.storage.files import to_bytes
from online_rank.support.progress import progress

#: NDCG@10 of each query before it is learned; NaN where all grades are equal.
Run = Callable[[list[Query]], np.ndarray]

NDCG = measure("ndcg@10")
DEFAULT, LIGHT, ADDITIVE = "map, perceptron", "light blend", "AdditiveRanker()"
#: Queries of the figure in brackets.
FIRST = 50
#: Shapes of queries of `cost` and `size`, and the most that a query may cost, in costs of the perceptron.
SHAPES = {(20, 46): 2, (120, 136): 3}


def perceptron(half_life: float = 1000) -> Any:
    """What people began with."""
    return StreamQuantileMap() | PerceptronRanker(half_life=half_life)


def ndcgs(scores: list[Any], queries: list[Query]) -> np.ndarray:
    """NDCG@10 of queries by scores; NaN where all grades are equal."""
    found = np.full(len(queries), np.nan)
    for t, (given, (_, y)) in enumerate(zip(scores, queries, strict=True)):
        if min(y) < max(y):
            found[t] = 1.0 - NDCG.loss(np.array(given), np.array(y), ties="expected")
    return found


def run_of(make: Callable[[], Any]) -> Run:
    """A pass of a new model."""

    def run(queries: list[Query]) -> np.ndarray:
        model, scores = make(), []
        for X, y in queries:
            scores.append(model.predict_one(X))
            model.learn_one(X, y)
        return ndcgs(scores, queries)

    return run


def models(given: Any) -> dict[str, Run]:
    """The models that are compared everywhere."""
    found = {DEFAULT: run_of(perceptron), ADDITIVE: run_of(AdditiveRanker)}
    if given.other is not None:
        found[LIGHT] = lambda queries: ndcgs(scores_of(given.other, "BlendRanker('light')", queries), queries)
    return found


def paired(found: np.ndarray, other: np.ndarray) -> str:
    """The mean difference over seeds, and its standard error."""
    return f"{Spread.of(np.asarray(found) - other):+.4f}"


def compared(given: Any, names: list[str], runs: dict[str, Run]) -> str:
    """A line for each group of streams, means over seeds, and the paired differences to the first and to the light blend."""
    rows, total = [], {name: np.zeros(2) for name in runs}
    against = [name for name in runs if name != ADDITIVE]
    with progress("streams", len(names) * given.seeds, "seeds") as show:
        for k, group in enumerate(names):
            found: dict[str, list[Any]] = {name: [] for name in runs}
            for seed in range(given.seeds):
                for name, run in runs.items():

                    def measured(run: Run = run, group: str = group, seed: int = seed) -> list[list[float]]:
                        each = [run(make(seed)) for make in GROUPS[group]]
                        return [[float(np.nanmean(one)), float(np.nanmean(one[:FIRST]))] for one in each]

                    found[name].append(np.mean(given.kept.part(f"{group}, {name}, {seed}", measured), axis=0))
                show(k * given.seeds + seed + 1)
            means = {name: np.mean(each, axis=0) for name, each in found.items()}
            for name, mean in means.items():
                total[name] += mean / len(names)
            own, *others = (np.array(found[name])[:, 0] for name in (ADDITIVE, *against))
            rows.append((group, *(f"{a:.4f} ({b:.3f})" for a, b in means.values()), *(paired(own, one) for one in others)))
    differences = [
        f"{total[ADDITIVE][0] - total[name][0]:+.4f} ({total[ADDITIVE][1] - total[name][1]:+.3f})" for name in against
    ]
    rows.append(("mean", *(f"{a:.4f} ({b:.3f})" for a, b in total.values()), *differences))
    return table(("stream", *runs, *(f"less {name}" for name in against)), rows)


def tuned(given: Any, make: Callable[[float], Any], settings: tuple[float, ...]) -> Run:
    """A learner with the best of three settings on another seed."""

    def best() -> float:
        queries = drifting(77, TURNS)
        return max(settings, key=lambda setting: float(np.nanmean(run_of(lambda: make(setting))(queries))))

    setting = given.kept.part(f"{make.__name__}, setting", best)
    return run_of(lambda: make(setting))


def drift(given: Any) -> str:
    others = {
        "half-life 50": run_of(lambda: perceptron(50)),
        "AROW": tuned(given, Arow, (0.1, 1.0, 10.0)),
        "AdaGrad": tuned(given, AdaGrad, (0.03, 0.1, 0.3)),
    }
    return compared(given, [name for name in GROUPS if name.startswith((TURNS, GRADUAL))], models(given) | others)


def growth(given: Any) -> str:
    rows, runs = [], models(given)
    for kind in ("day", "running sum"):
        second = [[np.nanmean(run(growing(kind, seed))[75:]) for seed in range(given.seeds)] for run in runs.values()]
        rows.append((kind, *(f"{np.mean(one):.4f}" for one in second)))
    return table(("feature", *runs), rows)


def lightgbm(queries: list[Query], **settings: Any) -> np.ndarray:
    """NDCG@10 of the second half by LightGBM, which has learned the first."""
    half = len(queries) // 2
    learned, ranked = queries[:half], queries[half:]
    qid = np.repeat(np.arange(half), [len(y) for _, y in learned])
    model = LambdaMART(n_jobs=1, **settings)
    model.learn_many(np.vstack([X for X, _ in learned]), np.concatenate([y for _, y in learned]), qid)
    return ndcgs([model.predict_many(X) for X, _ in ranked], ranked)


def missing(given: Any) -> str:
    rows = []
    for how, share in (("at random", 0.1), ("at random", 0.3), ("at random", 0.5), ("where it is high", 0.3)):
        found = []
        for seed in range(given.seeds):
            holed, filled = with_holes(seed, share, how)
            own, by_hand = run_of(AdditiveRanker)(holed)[200:], run_of(perceptron)(filled)[200:]
            found.append([float(np.nanmean(each)) for each in (own, by_hand, lightgbm(holed))])
        own, *others = np.array(found).T
        shown = [f"{each.mean():.4f}" for each in (own, *others)]
        rows.append((f"{share:.0%} {how}", *shown, *(paired(own, each) for each in others)))
    peers = ("perceptron with means and indicators by hand", "LightGBM with NaN")
    return table(("missing", ADDITIVE, *peers, *(f"less {peer}" for peer in peers)), rows)


def shops(given: Any) -> str:
    runs = models(given)
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(max(given.seeds, 5)):
        queries = shop(seed)
        hot, numbers = coded(queries, one_hot=True), coded(queries, one_hot=False)
        each = {
            ADDITIVE: runs[ADDITIVE](queries),
            "AdditiveRanker() without brands and categories": runs[ADDITIVE]([(X[:, :4], y) for X, y in numbers]),
            **{f"{name}, one-hot by hand": run(hot) for name, run in runs.items() if name != ADDITIVE},
        }
        second = lightgbm(numbers, categories=(4, 5))
        for name, one in each.items():
            found.setdefault(name, []).append((float(np.nanmean(one)), float(np.nanmean(one[len(queries) // 2 :]))))
        found.setdefault("LightGBM with categorical features", []).append((np.nan, float(np.nanmean(second))))
    rows, own = [], np.array(found[ADDITIVE])
    for name, values in found.items():
        both = np.array(values)
        means = ["" if np.isnan(mean) else f"{mean:.4f}" for mean in both.mean(axis=0)]
        away = ["" if name == ADDITIVE or np.isnan(one).any() else paired(own[:, k], one) for k, one in enumerate(both.T)]
        rows.append((name, *means, *away))
    shown = table(("model", "all queries", "second half", "AdditiveRanker() less it, all", "second half"), rows)
    return f"{shown}\n\n{drawn()}"


def drawn() -> str:
    """The curves of a shop in which every fourth rating is missing, as a picture."""
    rng, model = np.random.default_rng(0), AdditiveRanker()
    for documents, y in shop(0):
        model.learn_one([{**x, "rating": None} if rng.random() < 0.25 else x for x in documents], y)
    figure: Any = plot.curves(model)[0].figure
    figure.savefig(RESULTS / "additive_shop.png", dpi=150)
    return "![What an AdditiveRanker learned of a shop in which every fourth rating is missing](additive_shop.png)"


def certificates(given: Any) -> str:
    """What certificates say after a pass, by stream."""
    rows = []
    for name in ("MQ2008, S1 to S4", "LightGBM's training set", *(one for one in GROUPS if one.startswith(TURNS))):
        for seed in range(min(given.seeds, 3)):
            model = AdditiveRanker()
            for X, y in GROUPS[name][0](seed):
                model.learn_one(X, y)
            c = certificate_of(model)
            if not c.holds:
                raise SystemExit(f"a certificate fails:\n{c}")
            price = c.bound("blend_bound") - c.facts["best_loss"]
            cells = (c.loss, c.facts["least_loss"], c.facts["best_member"][1], c.bound("blend_bound"), price,
                     float(model.candidate_losses[0]))  # fmt: skip
            rows.append((f"{name}, seed {seed}", c.totals["n_counted"], *(f"{value:.2f}" for value in cells)))
    header = ("stream", "n", "served loss", "best fixed candidate", "best member", "certified", "price",
              "last weights alone")  # fmt: skip
    return table(header, rows)


def wide(given: Any) -> str:
    """Held-out queries after one pass of 600, by stream."""
    rows = []
    for name in ("text", "yeast"):
        found: dict[str, list[float]] = {DEFAULT: [], ADDITIVE: []}
        for seed in range(given.seeds):
            for train, held_out in parts_of(name, 600, seed):
                for who, make in ((DEFAULT, perceptron), (ADDITIVE, AdditiveRanker)):
                    model = make()
                    for X, y in train:
                        model.learn_one(X, y)
                    found[who].append(float(np.nanmean(ndcgs([model.predict_one(X) for X, _ in held_out], held_out))))
        own, other = np.array(found[ADDITIVE]), np.array(found[DEFAULT])
        rows.append((_WIDE[name], f"{other.mean():.4f}", f"{own.mean():.4f}", paired(own, other)))
    return table(("stream", DEFAULT, ADDITIVE, f"less {DEFAULT}"), rows)


_WIDE = {"text": "text of 20,000 words, sparse rows", "yeast": "Yeast, 14 labels x 103 attributes, dense"}


def queries_of(shape: tuple[int, int], n: int = 1000) -> list[Query]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=shape), rng.integers(0, 5, shape[0])) for _ in range(n)]


def cost(given: Any) -> str:
    """Processor time of 1,000 queries, from the first one on, in turns; kernels were compiled in a pass that does not count."""
    rows = []
    for shape, most in SHAPES.items():
        queries, makes = queries_of(shape), {DEFAULT: perceptron, ADDITIVE: AdditiveRanker}
        for _ in range(2):
            learners, spent = {name: make() for name, make in makes.items()}, dict.fromkeys(makes, 0.0)
            for first in range(0, len(queries), 50):
                for name, model in learners.items():
                    begun = time.thread_time()
                    for X, y in queries[first : first + 50]:
                        model.predict_one(X)
                        model.learn_one(X, y)
                    spent[name] += time.thread_time() - begun
        own = [f"{seconds / len(queries) * 1e6:.0f}" for seconds in spent.values()]
        ratio = spent[ADDITIVE] / spent[DEFAULT]
        rows.append((f"{shape[0]} x {shape[1]}", *own, f"{ratio:.2f}", most, "met" if ratio <= most else "missed"))
    return table(("query", f"{DEFAULT}, microseconds", ADDITIVE, "ratio", "at most", ""), rows)


def size(given: Any) -> str:
    rows = []
    for shape in SHAPES:
        model = AdditiveRanker()
        for X, y in queries_of(shape, 300):
            model.learn_one(X, y)
        rows.append((f"{shape[1]}", f"{len(to_bytes(model)) / 1e6:.2f}"))
    return table(("features", "megabytes"), rows)


PARTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "streams": ("Streams: all queries (the first 50)", lambda given: compared(given, [*GROUPS], models(given))),
    "drift": ("Drift: all queries (the first 50)", drift),
    "growth": ("A feature that grows with time, second half", growth),
    "missing": ("Missing values, second half", missing),
    "shop": ("A shop with 40 brands and 10 categories", shops),
    "wide": ("Sparse text, and Yeast: held-out queries after one pass", wide),
    "certificate": ("What certificates say", certificates),
    "cost": ("Processor time to rank and to learn 1,000 queries", cost),
    "size": ("Size of a saved model after 300 queries", size),
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", nargs="+", choices=PARTS, default=[*PARTS])
    arguments.add_argument("--seeds", type=int, default=3)
    add_other(arguments)
    add_keep(arguments)
    given = arguments.parse_args()
    given.kept = Kept(given.keep)
    sections = []
    for part in given.part:
        title, shown = PARTS[part]
        text = shown(given)
        code = given.kept.code if part in ("streams", "drift") else f"Measured on commit {commit()}."
        is_beside = given.other is not None and part in ("streams", "drift", "growth", "shop")
        light = "" if not is_beside else f" The light blend is from commit {commit_of(given.other)}."
        sections.append(f"## {title}\n\n{text}\n\n{code}{light}\n")
    save("additive", "\n".join(["# One curve for each feature\n", *sections]), part=len(sections) < len(PARTS))


if __name__ == "__main__":
    main()
