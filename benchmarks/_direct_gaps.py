"""Figure 3 of [DR]: what a network says of neighbours in a ranked list, on synthetic and on web data."""

import matplotlib.pyplot as plt
import numpy as np

from benchmarks._common import RESULTS, table
from benchmarks._data import LIGHTGBM, data_folder, folds
from benchmarks._gaussians import GradedGaussians
from benchmarks._pictures import neighbour_gaps
from online_rank import StreamScaler
from online_rank.evaluate import Spread
from online_rank.rankers.direct import DirectRanker

PASSES = 10
#: Grades from here on are relevant where the web data are binarised, as in the authors' code.
RELEVANT = 2


def on_gaussians(train: GradedGaussians, test: GradedGaussians) -> str:
    """Figure 3a: r between neighbours of a ranked list; and grades by segmentation."""
    pipeline = StreamScaler() | DirectRanker(output="tanh", seed=0)
    rows = []
    for p in range(1, PASSES + 1):
        pipeline.learn_many(*train.block())
        scaler, ranker = pipeline.steps.values()
        if p in (1, PASSES):
            queries = [(scaler.transform_one(X), y) for X, y in test]
            off = np.concatenate([np.abs(np.array(ranker.segment_one(X)) - y) for X, y in queries])
            rows.append((p, f"{np.mean(off == 0):.0%}", f"{np.mean(off <= 1):.0%}"))
    X, y = queries[0]
    figure = neighbour_gaps(ranker, X, y).figure
    figure.savefig(RESULTS / "direct_ranker_gaps.png", dpi=200)
    plt.close(figure)
    return f"""## Gaps between neighbours ([DR], section 5.3 and figure 3a)

`output="tanh"`, {len(train.block()[0]):,} training documents, five grades. The picture: a test query after {PASSES} passes. The
table: how many documents of the test queries get their true grade from `segment_one`, or one that is at most one off.

{table(("passes", "true grade", "at most one off"), rows)}

![gaps](direct_ranker_gaps.png)
"""


def on_web_data() -> str:
    """Figures 3b and 3c, on the set at hand that is most like the set of [DR]: trained on grades, and on binarised grades."""
    fold = next(iter(folds(data_folder() / LIGHTGBM)))
    train, test = fold.train, fold.test
    trained_on = {"grades": train.y, "binarised grades": (train.y >= RELEVANT).astype(np.int64)}
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained", sharey=True)
    rows = []
    for ax, (name, grades) in zip(axes, trained_on.items(), strict=True):
        pipeline = StreamScaler() | DirectRanker((50, 5), output="tanh", seed=0)
        for _ in range(PASSES):
            pipeline.learn_many(train.X, grades, train.qid)
        scaler, ranker = pipeline.steps.values()
        X = scaler.transform_one(test.X)
        order, gaps = ranker.rank_one(X), np.array(ranker.neighbour_gaps_one(X))
        y = test.y[order]
        lower = np.minimum(y[:-1], y[1:])
        for grade in range(int(test.y.max()) + 1):
            at = np.flatnonzero(lower == grade)
            ax.scatter(at, gaps[at], s=4, label=str(grade))
        ax.set(title=f"trained on {name}", xlabel="documents, best first")
        changes, largest = y[:-1] != y[1:], np.argsort(-gaps)[: int(test.y.max())]
        means = [f"{Spread.of(part):.4f}" for part in (gaps[~changes], gaps[changes])]
        rows.append((name, *means, f"{changes.mean():.0%}", f"{changes[largest].sum()} of {len(largest)}"))
    axes[0].set_ylabel("gap to the next document")
    figure.legend(*axes[0].get_legend_handles_labels(), title="lower grade", markerscale=3, loc="outside right center")
    figure.savefig(RESULTS / "direct_ranker_web_gaps.png", dpi=150)
    plt.close(figure)
    header = ("trained on", "gap within a grade", "gap where it changes", "neighbours where it changes", "of the largest gaps")
    return f"""## Gaps on web data ([DR], figures 3b and 3c)

A stand-in: [DR] shows MSLR-WEB10K, which is not here; this is the set of LightGBM's example, with five grades as there, hidden
layers of 50 and 5 as in the authors' code, and {PASSES} passes. All {len(test.y):,} test documents are ranked as one list, as
there. On the left the network learned the grades, on the right whether they are at least {RELEVANT}. *Of the largest gaps*: as
many as there are boundaries between grades, and how many of them separate grades.

{table(header, rows)}

![gaps on web data](direct_ranker_web_gaps.png)
"""
