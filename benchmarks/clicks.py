"""How good is a ranker that is taught by clicks alone, and what do users see while it learns?

    python -m benchmarks.clicks [--part NAME] [--keep FILE]

Users are simulated (`online_rank.stream.clicks`) on MQ2008: a query of the training part is drawn, a ranker shows ten
documents, the user clicks, the ranker learns. *Offline*: NDCG@10 on the test part of the ranking by scores. *Online*: the sum
of the NDCG@10 of what was shown, discounted by 0.9995 an impression; a query without a relevant document counts 0. Every
ranker meets the same queries, fold by fold and seed by seed, so that differences are paired. PDGD is our port of the reference
method of the field with its authors' settings (`benchmarks/_pdgd.py`). Nothing is tuned on these runs. The parts, each a
section of the page; `--keep FILE` continues later:

- bar, the default: `SwapRanker` compared with PDGD, for 10, 3, 2, 1 slots;
- bias: what `PositionBias` measures while `SwapRanker` learns;
- peers: `SwapRanker` compared with PDGD, DBGD, MGD and COLTR.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._clicks_data import K
from benchmarks._clicks_online import Trial, bar, impressions, peers
from benchmarks._common import RESULTS, parser
from benchmarks._common import save as save_result
from benchmarks._data import data_folder
from benchmarks._kept import Kept, add_keep
from online_rank import PlackettLuce, PositionBias, SwapRanker
from online_rank.evaluate import Spread

PARTS = ("bar", "bias", "peers")


def measured_bias(folder: Path, fold: int, seed: int, n: int) -> PositionBias:
    """The position bias of users who look at position p with probability 1/p, after n impressions of `SwapRanker`."""
    model, bias = SwapRanker(PlackettLuce(K, seed=1000 * fold + seed)), PositionBias(K)
    for _, clicks in impressions(model, folder, Trial("position", K, fold, seed, n)):
        bias.update(clicks)
    return bias


def position_bias(folder: Path, n: int = 10_000, seeds: Sequence[int] = (10, 11, 12, 13)) -> str:
    """How far `PositionBias` is from the truth, with a picture of the first run."""
    from benchmarks import _pictures

    truth = 1.0 / np.arange(1, K + 1)
    found = [measured_bias(folder, fold, seed, n) for fold in range(5) for seed in seeds]
    errors = [float(np.abs(np.log(bias.examination / truth)).mean()) for bias in found]
    _pictures.position_bias(found[0], truth).figure.savefig(RESULTS / "clicks_position_bias.png")
    return f"""## Position bias

Users who look at position p with probability 1/p. Mean |log error| of `PositionBias` after {n:,} impressions of `SwapRanker()`:
{Spread.of(errors):.3f}; {min(errors):.3f} to {max(errors):.3f} in {len(errors)} runs.

![Position bias of one run, with its interval](clicks_position_bias.png)
"""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", default="bar", choices=PARTS, help="what to measure; the page keeps its other sections")
    arguments.add_argument("--minutes", type=float, default=float("inf"), help="bar, peers: begin no other run after this")
    add_keep(arguments)
    chosen = arguments.parse_args()
    folder = data_folder() / "mq2008"
    if not folder.exists():
        raise SystemExit(f"no data: {folder}")
    kept = Kept(chosen.keep)
    section = {
        "bar": lambda: bar(folder, chosen.minutes, kept),
        "bias": lambda: position_bias(folder),
        "peers": lambda: peers(folder, chosen.minutes, kept),
    }[chosen.part]
    save_result("clicks", section(), part=True)


if __name__ == "__main__":
    main()
