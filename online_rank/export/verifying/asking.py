"""`verify`: whether a running engine scores probes as the exported model does."""

import json
from pathlib import Path

from online_rank.export.probing import Probes
from online_rank.export.verifying import databases, elastic, files, solr, vespa
from online_rank.export.verifying.comparing import Verdict, compared
from online_rank.export.verifying.files import Answer

#: Targets whose file a program here reads.
_FILES = {"c": files.c, "onnx": files.onnx, "lightgbm": files.lightgbm, "xgboost": files.xgboost}
#: Targets that are asked at an address.
_ADDRESSES = {
    "elasticsearch": elastic.plugin,
    "opensearch": elastic.plugin,
    "painless": elastic.painless,
    "postgresql": databases.postgresql,
    "solr": solr.solr,
    "vespa": vespa.vespa,
}


def probes_beside(path: str) -> str:
    """Where `export --out PATH` writes the probes."""
    return f"{path}.probes.json"


def verify(path: str, *, engine: str | None = None, probes: str | None = None, answers: str | None = None) -> Verdict:
    """Send the probes of an exported model to an engine, and compare its scores with those that the export gives.

    Parameters
    ----------
    path
        The exported file.
    engine
        The address of the engine: of Elasticsearch, OpenSearch, Solr (with its collection), Vespa (with a namespace and a
        document type), or a database. None for programs that read the file here: ONNX Runtime, a C compiler, LightGBM,
        XGBoost, and DuckDB in memory.
    probes
        The file of the probes; None for the one next to `path`.
    answers
        In place of an engine that cannot be called from here: a file of JSON with the score of each probe by its id.

    Returns
    -------
    The `Verdict`.

    Raises
    ------
    ValueError
        There are no probes, an address is needed or not taken, or a feature is none that a probe can set.
    RuntimeError
        The engine does not answer, or with an error.
    ImportError
        The program's package is not installed.

    Examples
    --------
    >>> verify("model.onnx").in_words()  # doctest: +SKIP
    'equal: ONNX Runtime 1.32.0 scores 64 probe documents as the exported model does'
    """
    beside = probes_beside(path) if probes is None else probes
    try:
        given = Probes.from_json(Path(beside).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{beside}: there are no probes; online-rank export --out writes them, or give --probes FILE"
        ) from None
    except ValueError as error:
        raise ValueError(f"{beside}: {error}") from None
    if answers is not None:
        if engine is not None:
            raise ValueError("give an engine (--engine) or its answers (--answers), not both")
        return compared(given, answers, _answered(given, answers))
    return compared(given, *_asked(given, Path(path).read_bytes(), engine))


def _asked(given: Probes, content: bytes, engine: str | None) -> Answer:
    """What the engine of a target answers."""
    to = given.target
    if to in ("duckdb", "duckdb-tables"):
        return databases.duckdb(given, content, engine)
    if to in _FILES:
        if engine is not None:
            raise ValueError(f"--engine: the file for {to} is run here; leave it out")
        return _FILES[to](given, content)
    if to not in _ADDRESSES:
        raise ValueError(f"nothing here runs {to}: compute the scores of the probes where it runs, and give --answers FILE")
    if engine is None:
        raise ValueError(f"--engine: the address of the engine that runs {to} is needed, as in {_EXAMPLES[to]}")
    return _ADDRESSES[to](given, content, engine)


_EXAMPLES = {
    "elasticsearch": "http://localhost:9200",
    "opensearch": "http://localhost:9200",
    "painless": "http://localhost:9200",
    "postgresql": "postgresql://localhost/shop",
    "solr": "http://localhost:8983/solr/shop",
    "vespa": "http://localhost:8080/shop/product",
}


def _answered(given: Probes, path: str) -> list[list[float]]:
    """The scores in a file. Raises ValueError for what is no score, and for a probe without one."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        scores = {str(name): float(score) for name, score in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: it is no JSON of the form {{id: score}} ({error})") from None
    if lacking := [probe.id for query in given.queries for probe in query if probe.id not in scores]:
        raise ValueError(f"{path}: {len(lacking)} probes have no score, {lacking[0]} among them")
    return [[scores[probe.id] for probe in query] for query in given.queries]
