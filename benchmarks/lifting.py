"""What does it cost to scale a query, by our own scaler and by river's, in each form of a query?

`python -m benchmarks.lifting` times one `learn_one` with one `transform_one` of a query of 100 documents with 136 features, and
writes a table to benchmarks/results/lifting.md. The contestants take turns; a figure is the median over rounds.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
from river import preprocessing

from benchmarks._common import environment, parser, save, table
from benchmarks._timing import medians
from online_rank import ForEachDocument, StreamScaler

N_DOCUMENTS, N_FEATURES = 100, 136


def forms() -> dict[str, object]:
    """One query in the forms that a scaler takes."""
    X = np.random.default_rng(0).normal(size=(N_DOCUMENTS, N_FEATURES))
    names = [f"feature {j}" for j in range(N_FEATURES)]
    documents = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    return {
        "array": X,
        "array, float32": X.astype(np.float32),
        "list of dicts": documents,
        "dict of dicts": {f"document {i}": document for i, document in enumerate(documents)},
        "pandas frame": pd.DataFrame(X, columns=names),
        "polars frame": pl.DataFrame(X, schema=names),
    }


def scale(scaler: object, query: object) -> None:
    scaler.learn_one(query)
    scaler.transform_one(query)


def by_hand(scaler: preprocessing.StandardScaler, documents: list[dict]) -> None:
    """What is the least that river's scaler costs: every document learned, then every one transformed."""
    for x in documents:
        scaler.learn_one(x)
    for x in documents:
        scaler.transform_one(x)


def contestants() -> dict[tuple[str, str], Callable[[], None]]:
    queries = forms()
    runs: dict[tuple[str, str], Callable[[], None]] = {}
    for form, query in queries.items():
        for name, scaler in (
            ("StreamScaler", StreamScaler()),
            ("ForEachDocument(StandardScaler)", ForEachDocument(preprocessing.StandardScaler())),
        ):
            runs[name, form] = lambda scaler=scaler, query=query: scale(scaler, query)
    river, documents = preprocessing.StandardScaler(), queries["list of dicts"]
    runs["river's StandardScaler, a loop by hand", "list of dicts"] = lambda: by_hand(river, documents)
    return runs


def report(rounds: int) -> str:
    runs = contestants()
    for run in runs.values():
        run()
    ms = {key: 1e3 * seconds for key, seconds in medians(runs, rounds).items()}
    least = ms["StreamScaler", "array"]
    rows = [
        (f"{name}: {form}", f"{value:.3f}", f"{value / least:,.0f}")
        for (name, form), value in sorted(ms.items(), key=lambda item: item[1])
    ]
    return f"""# Scaling a query

One `learn_one` and one `transform_one` of {N_DOCUMENTS} documents with {N_FEATURES} features; medians of {rounds}
interleaved rounds.
{environment("pandas", "polars")}. `python -m benchmarks.lifting`

{table(("", "ms a query", "time, to StreamScaler on an array"), rows)}

Next to river's scaler itself, the cost of lifting it is what is added to the loop by hand: the entries of the scaler that a
rejected query is undone with, and the check that what goes in and out are finite numbers.
"""


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=41)
    save("lifting", report(arguments.parse_args().rounds))
