"""What holds on every stream: the beginning, the certificate; and what exports change."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._common import table
from benchmarks._fusion_streams import KINDS, fusion_stream
from benchmarks._retrievers import Fused
from online_rank import BlendRanker, RunFeatures, Runs, hybrid
from online_rank.base import ranker_of, transformers_of
from online_rank.evaluate import Spread
from online_rank.export import TARGETS, fusion_weights
from online_rank.measures.learned import measure
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.rules import rule_weights
from tests.reference import fusion


def engines(n: int) -> str:
    """The section on the order before any feedback."""
    rows = []
    for name, (today, options, oracle, distinct) in fusion.ENGINES.items():
        rng, other = np.random.default_rng(11), 0
        for _ in range(n):
            lists, weights = fusion.random_lists(rng, distinct=distinct)
            model = hybrid([*lists], today=today, weights=weights, **options)
            other += model.rank_one(Runs(lists)) != oracle(lists, weights)
        rows.append((name, f"{n:,}", str(other)))
        print("|".join(rows[-1]), flush=True)
    return f"""## Before any feedback

Random runs of one to five retrievers, with ties, missing documents, empty lists and negative scores; weights 1, 2, 3, 1/2, 1/4.
The order of `hybrid` compared with each engine's documented formula in exact arithmetic (`tests/reference/fusion.py`), all
documents. Where sums of different terms are equal as fractions, as .25/63 + 2/72 and 2/63, rounding decides, here and in the
engines.

{table(("engine", "runs", "ranked otherwise"), rows)}
"""


def certificate(n: int, length: int = 15) -> str:
    """The section on the certificate against today's fusion."""
    of, violations, slack = measure("ndcg@10"), 0, []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        names, rule = ["a", "b", "c"], ("rrf", "minmax")[seed % 2]
        model, today = hybrid(names, today=rule), RunFeatures(names) | FixedRanker(rule_weights(rule, names))
        lost = 0.0
        for _ in range(length):
            query = _drawn(rng, names)
            by_rule = today.predict_one(query)
            worst = sorted(by_rule, key=by_rule.__getitem__)[:2]
            grades = {d: int(d in worst) if seed % 4 < 2 else int(rng.integers(3)) for d in by_rule}
            if len({*grades.values()}) > 1:
                lost += of.loss([*by_rule.values()], [*grades.values()], ties="pessimistic")
            model.learn_one(query, grades)
        blend = ranker_of(model)
        account = blend.account
        bound = lost + np.log(2.0) / blend.step + account.mixability_gap + account.served - account.mixed
        violations += account.served > bound + 1e-9
        slack.append(bound - account.served)
    row = f"{n:,}", violations, f"{min(slack):.3f}", f"{np.mean(slack):.3f}"
    return f"""## Certificate against today's fusion

{n:,} streams of {length} queries; in half of them the two documents that today's fusion ranks last are relevant, in the others
grades are random. The loss of the rule is counted by another program.

{table(("streams", "violations", "smallest slack", "mean slack"), [row])}
"""


def beginnings(worlds: int = 6, first: int = 20) -> str:
    """The section on the rule to begin with."""
    of, names, rules = measure("ndcg@10"), [f"r{r}" for r in range(5)], ("minmax", "zscore", "rrf")
    ways = (*rules, *(f"hybrid, {rule}" for rule in rules))
    lost: dict[str, list[np.ndarray]] = {way: [] for way in ways}
    for seed in range(10, 10 + worlds):
        queries = [(query, grades) for query, grades in fusion_stream(100, seed=seed) if any(grades.values())]
        features = RunFeatures(names, parts=("minmax", "zscore", "reciprocal_rank"))
        models = {rule: features | FixedRanker(rule_weights(rule, names)) for rule in rules}
        models |= {f"hybrid, {rule}": hybrid(names, today=rule) for rule in rules}
        for way, model in models.items():
            losses = []
            for query, grades in queries:
                losses.append(of.loss([*model.predict_one(query).values()], [*grades.values()]))
                if way not in rules:
                    model.learn_one(query, grades)
            lost[way].append(np.array(losses))
    rows = []
    for way in ways:
        ahead = [base - losses for base, losses in zip(lost["minmax"], lost[way], strict=True)]
        parts = ([x[:first].mean() for x in ahead], [x.mean() for x in ahead], [x[len(x) // 2 :].mean() for x in ahead])
        rows.append((way, *(f"{Spread.of(part):+.4f}" for part in parts)))
    header = ("", f"first {first}, less min-max", "all 100, less min-max", "second half, less min-max")
    return f"""## Which rule to begin with

{worlds} synthetic fusion streams of 100 queries (`benchmarks/_fusion_streams.py`): NDCG@10 minus NDCG@10 of the mean of min-max
scores, and its standard error over streams. Rank, then learn.

{table(header, rows)}
"""


#: Shares of the prior that `hybrid` could put on today's rule.
SHARES = (0.5, 0.8, 0.9)


def robust(worlds: int, length: int = 60, first: int = 20) -> str:
    """The section on how much of the prior is on today's rule: many kinds of synthetic streams."""
    of, rows = measure("ndcg@10"), []
    for kind, options in KINDS.items():
        names = [f"r{r}" for r in range(options.get("n_runs", 5))]
        ahead = []
        for seed in range(worlds):
            rule = RunFeatures(names, parts=("minmax",)) | FixedRanker(rule_weights("minmax", names))
            models, gains = [_with_share(names, share) for share in SHARES], []
            for query, grades in fusion_stream(length, seed=100 + seed, **options):
                if any(grades.values()):
                    y = [*grades.values()]
                    lost = of.loss([*rule.predict_one(query).values()], y)
                    gains.append([lost - of.loss([*model.predict_one(query).values()], y) for model in models])
                    for model in models:
                        model.learn_one(query, grades)
            found = np.array(gains)
            ahead.append((found[:first].mean(axis=0), found.mean(axis=0)))
        parts = np.array(ahead).transpose(1, 2, 0).reshape(-1, worlds)
        rows.append((kind, *(f"{Spread.of(x):+.4f}" for x in parts)))
        print("|".join(rows[-1]), flush=True)
    own = ranker_of(hybrid(["a"])).prior[0]
    header = ("", *(f"{part}, {share:g}" for part in (f"first {first}", f"all {length}") for share in SHARES))
    return f"""## How much of the prior is on today's rule

Synthetic fusion streams of {length} queries of {len(KINDS)} kinds (`benchmarks/_fusion_streams.py`), {worlds} of each:
NDCG@10 of `hybrid(runs)` less the mean of min-max scores, rank, then learn, for several shares of the prior on that rule;
standard errors over streams. Chosen: {own:g}, of those that fall behind by no more than .002 for any kind, the one that
gains most.

{table(header, rows)}
"""


def _with_share(names: Sequence[str], share: float) -> Any:
    """`hybrid(names)` with another prior."""
    given = hybrid(names)
    blend = ranker_of(given)
    others = (0.0,) * (len(blend.rankers) - 1)
    return transformers_of(given)[0] | BlendRanker(blend.rankers, measure=blend.measure, prior=(share, *others))


def _drawn(rng: np.random.Generator, names: Sequence[str]) -> Runs:
    """Six of twelve documents for each retriever."""
    return Runs({x: dict(zip(rng.permutation(12)[:6].tolist(), rng.normal(size=6).tolist(), strict=True)) for x in names})


def exports(queries: Sequence[Fused], names: Sequence[str]) -> str:
    """The section on changed rankings: `hybrid` after one pass, and each target."""
    rows = []
    for today in ("rrf", "minmax"):
        model = hybrid(names, today=today)
        for i in np.random.default_rng(0).permutation(len(queries)).tolist():
            model.learn_one(queries[i].runs, queries[i].grades)
        for to, target in TARGETS.items():
            if "fusion" in target.kinds:
                found = fusion_weights(model, to, queries=[query.runs for query in queries])
                rows.append((today, to, f"{found.changed:.1%}", f"{found.changed_first:.1%}"))
                print("|".join(rows[-1]), flush=True)
    return f"""## Rankings changed by exports

`hybrid` after one pass over {len(queries)} questions of Cranfield, and the nearest weights of each engine, fitted to them.

{table(("today", "target", "rankings changed", "in the first ten"), rows)}
"""
