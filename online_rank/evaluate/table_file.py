"""Experiments in files: models, streams and metrics as tables of TOML."""

import importlib
import inspect
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from online_rank import extensions
from online_rank.evaluate.experiment import Experiment
from online_rank.support.registry import TOP_LEVEL, classes, public_class

_KEYS = ("models", "streams", "test", "metrics", "seeds", "import")
#: Classes of the studies that files of models may not name, with their modules.
_OTHERS = {
    "ClickStudy": "evaluate.click_study",
    "Drifting": "stream.synth",
    "NoisyTeacher": "stream.synth",
    "Retrained": "evaluate.retrained",
    "Separable": "stream.synth",
    "WebLike": "stream.weblike",
    "hybrid": "rankers.hybrid",
    "user": "stream.clicks",
}


def experiment_of(path: str | os.PathLike[str]) -> Experiment:
    """The experiment in a file of TOML.

    `[models.NAME]` and `[streams.NAME]` are tables. `class` is a public class of the library, a name that is registered
    (`register`), or `"module:name"`, a class or function of any module; all other keys are its arguments. An argument may be
    such a table again. A class with an argument `seed` gets the seed of the run, added to the one that the table has. `steps`
    is a list of tables, the steps of a pipeline, and `files` names files, found from the folder of this one. `[test.NAME]` are
    held-out queries of a stream. `metrics` is a list of names and such tables, `seeds` a number or a list; `import` names
    modules that register classes of your own.

    Like a script, such a file runs what it names: run files that you trust.

    Raises
    ------
    ValueError, TypeError
        The file is no TOML, or has other keys; or what it names does not exist, or takes other arguments.
    """
    where = Path(path)
    try:
        table = tomllib.loads(where.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where}: {error}") from None
    return experiment_of_table(table, where)


def experiment_of_table(table: Mapping[str, Any], where: Path) -> Experiment:
    """The experiment that a table describes; `where` is the file that it was read from."""
    if unknown := [key for key in table if key not in _KEYS]:
        raise ValueError(f"{where}: {unknown[0]!r} is unknown; a file has {', '.join(_KEYS)}")
    for key in ("models", "streams"):
        if not isinstance(table.get(key), Mapping) or not table[key]:
            raise ValueError(f"{where}: it has no table [{key}.NAME]")
    extensions.import_modules(table.get("import", []))
    made = {
        kind: {name: _Table(one, f"{where}, [{kind}.{name}]", where.parent) for name, one in table.get(kind, {}).items()}
        for kind in ("models", "streams", "test")
    }
    listed = table.get("metrics", ["ndcg@10"])
    metrics = [one if isinstance(one, str) else _made(one, 0, f"{where}, metrics", where.parent) for one in listed]
    for model in made["models"].values():
        model(0)
    experiment = Experiment(
        made["models"],
        {name: one.queries() for name, one in made["streams"].items()},
        metrics,
        test={name: one.queries() for name, one in made["test"].items()},
        seeds=table.get("seeds", 20),
    )
    experiment.file = dict(table)
    return experiment


class _Table:
    """Makes what a table describes from a seed."""

    def __init__(self, table: Any, where: str, folder: Path) -> None:
        if not isinstance(table, Mapping):
            raise ValueError(f"{where} is {table!r:.60}; it is a table")
        self.table = dict(table)
        self.where = where
        self.folder = folder

    def __call__(self, seed: int) -> Any:
        return _made(self.table, seed, self.where, self.folder)

    def queries(self) -> Any:
        """The files, whose order seeds shuffle; or what makes a stream from a seed."""
        return self(0) if "files" in self.table else self

    def described(self) -> Any:
        """The table."""
        return self.table


def _made(given: Any, seed: int, where: str, folder: Path) -> Any:
    """A value of a table; tables with `class`, `steps` or `files` become objects."""
    if isinstance(given, list):
        return [_made(one, seed, where, folder) for one in given]
    if not isinstance(given, Mapping):
        return given
    if "files" in given:
        return [os.fspath(folder / name) for name in given["files"]]
    if "steps" in given:
        steps = [_made(one, seed, where, folder) for one in given["steps"]]
        pipeline = steps[0]
        for step in steps[1:]:
            pipeline = pipeline | step
        return pipeline
    if "class" not in given:
        return {name: _made(one, seed, where, folder) for name, one in given.items()}
    make = _found(given["class"], where)
    arguments = {name: _made(one, seed, where, folder) for name, one in given.items() if name != "class"}
    names = _parameters(make)
    if "seed" in names:
        arguments["seed"] = arguments.get("seed", 0) + seed
    for name, value in arguments.items():
        if names and name not in names:
            raise ValueError(f"{where}: {given['class']} has no argument {name!r}; it has {', '.join(names)}")
        # TOML has no tuples, which arguments of rankers are.
        arguments[name] = tuple(value) if isinstance(value, list) else value
    return make(**arguments)


def _found(name: Any, where: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError(f"{where}: class is {name!r}; it is a name")
    if ":" in name:
        module, _, attribute = name.partition(":")
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part, None)
        if found is None:
            raise ValueError(f"{where}: module {module!r} has no {attribute!r}")
        return found
    if "." in name:
        return extensions.registered(name)
    if name in classes():
        return public_class(name)
    home = TOP_LEVEL.get(name, _OTHERS.get(name))
    if home is None:
        raise ValueError(f"{where}: there is no class {name!r}; another module's is written as 'module:name'")
    return getattr(importlib.import_module(f"online_rank.{home}"), name)


def _parameters(make: Callable[..., Any]) -> list[str]:
    """The names of its arguments; none if they are not known, or it takes any."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return []
    return [] if any(one.kind is one.VAR_KEYWORD for one in parameters) else [one.name for one in parameters]
