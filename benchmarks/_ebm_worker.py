"""Fits InterpretML's EBM in the Python that has it: a pickled task comes from stdin, its scores go to stdout.

A task is a dict: `train`, `test` and `grid`, lists of columns of which each is a list of numbers or texts; `names`; `y`, the
grades of `train`; `interactions` and `bags` (`outer_bags`) of `ExplainableBoostingRegressor`, or None for its defaults.
"""

import pickle
import sys
import time
from typing import Any

import pandas as pd


def main() -> None:
    from interpret.glassbox import ExplainableBoostingRegressor

    task: dict[str, Any] = pickle.load(sys.stdin.buffer)
    train, test, grid = (pd.DataFrame(dict(zip(task["names"], task[part], strict=True))) for part in ("train", "test", "grid"))
    options = {} if task["interactions"] is None else {"interactions": task["interactions"]}
    options |= {} if task["bags"] is None else {"outer_bags": task["bags"]}
    began = time.process_time()
    model = ExplainableBoostingRegressor(random_state=0, n_jobs=1, **options)
    model.fit(train, task["y"])
    seconds = time.process_time() - began
    told = {
        "scores": model.predict(test),
        "seconds": seconds,
        "terms": model.eval_terms(grid),
        "features": model.term_features_,
    }
    sys.stdout.buffer.write(pickle.dumps(told))


if __name__ == "__main__":
    main()
