"""The file of an experiment: settings, versions, machines and results as JSON, and a folder with a trace for each run."""

import datetime
import importlib.metadata
import io
import json
import math
import os
import platform
import sys
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import online_rank
from online_rank.evaluate.episode import Run
from online_rank.evaluate.results import Results
from online_rank.storage.files import write_atomically

_FORMAT = 1
_ALWAYS = ("numpy", "numba", "scipy", "river")
_IF_LOADED = {"sklearn": "scikit-learn", "lightgbm": "lightgbm", "xgboost": "xgboost", "torch": "torch"}


def circumstances() -> dict[str, Any]:
    """Versions and the machine: what may change the bits of a result although its settings are the same."""
    versions = {name: importlib.metadata.version(name) for name in _ALWAYS}
    # As modules say: xgboost comes with the package xgboost-cpu, too.
    loaded = {name: sys.modules[module] for module, name in _IF_LOADED.items() if module in sys.modules}
    versions |= {name: str(getattr(module, "__version__", "unknown")) for name, module in loaded.items()}
    machine = {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()}
    return {"online_rank": online_rank.__version__, "python": platform.python_version(), **versions, "machine": machine}


class ResultsFile:
    """A JSON file, and a folder of traces; each run is in both as soon as it has ended.

    Parameters
    ----------
    path
        `NAME.json`. Traces are in the folder `NAME.traces` next to it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.suffix != ".json":
            raise ValueError(f"file is {str(path)!r}; its name ends in .json")
        self.folder = self.path.with_suffix(".traces")
        self.about: dict[str, Any] = {}
        self.made_by: list[dict[str, Any]] = []
        self.runs: list[Run] = []
        self._rows: list[dict[str, Any]] = []

    def read(self) -> bool:
        """Read what is there. Returns whether there is a file.

        Raises
        ------
        ValueError
            It is no file of an experiment, or a trace is missing or damaged.
        """
        if not self.path.exists():
            return False
        try:
            found = json.loads(self.path.read_text())
            known = found["format"] == _FORMAT
            self.about, self.made_by, self._rows = found["about"], found["made_by"], found["runs"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} is no file of an experiment: {error!r}") from None
        if not known:
            raise ValueError(f"{self.path} has format {found['format']}; this version reads format {_FORMAT}")
        self.runs = [self._run(row) for row in self._rows]
        return True

    def begin(self, about: dict[str, Any]) -> None:
        """Set the settings, and note versions and machine of what is added from now on."""
        self.about = about
        self._noted()

    def add(self, run: Run) -> None:
        """Write the trace of a run, and then the file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        trace = io.BytesIO()
        np.savez_compressed(trace, **{f"{i}": values for i, values in enumerate(run.queries.values())}, allow_pickle=False)
        write_atomically(self.folder / self._name(run), trace.getvalue())
        row = {name: value for name, value in run._asdict().items() if name != "queries"}
        row |= {
            "values": {name: None if math.isnan(value) else value for name, value in run.values.items()},
            "trace": [*run.queries],
            "made_by": self._noted(),
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        self._rows.append(row)
        self.runs.append(run)
        self.write()

    def _noted(self) -> int:
        """Note versions and machine of now, to which a run may have added libraries. Returns their number in the list."""
        now = circumstances()
        if now not in self.made_by:
            self.made_by.append(now)
        return self.made_by.index(now)

    def write(self) -> None:
        """Write the file."""
        content = {"format": _FORMAT, "about": self.about, "made_by": self.made_by, "runs": self._rows}
        write_atomically(self.path, json.dumps(content, indent=1).encode())

    def results(self) -> Results:
        """What was measured."""
        return Results(self.runs, self.about | {"made_by": self.made_by})

    def _name(self, run: Run) -> str:
        return "~".join(urllib.parse.quote(str(part), safe=" ") for part in (run.stream, run.model, run.seed)) + ".npz"

    def _run(self, row: dict[str, Any]) -> Run:
        names: Sequence[str] = row["trace"]
        values = {name: math.nan if value is None else value for name, value in row["values"].items()}
        limits = {name: tuple(pair) for name, pair in row["intervals"].items()}
        plain = {name: row[name] for name in ("stream", "seed", "model", "n_queries", "n_documents", "seconds")}
        run = Run(**plain, values=values, intervals=limits, queries={})
        path = self.folder / self._name(run)
        try:
            with np.load(path, allow_pickle=False) as trace:
                return run._replace(queries={name: trace[f"{i}"] for i, name in enumerate(names)})
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"{path}, a trace of {self.path}, cannot be read: {error}") from None


def read_results(path: str | os.PathLike[str]) -> Results:
    """The results in a file of `Experiment.run`, with its traces.

    Raises
    ------
    FileNotFoundError, ValueError
        There is no such file, or it is none of an experiment.
    """
    file = ResultsFile(path)
    if not file.read():
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}: run the experiment first")
    return file.results()
