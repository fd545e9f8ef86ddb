"""`online-rank export`: a saved model for other programs."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from online_rank.cli.files import check_outputs, load_model
from online_rank.cli.logs import say
from online_rank.cli.reading import Reading, check_files, look_at_runs
from online_rank.cli.runs import read_runs, require_runs
from online_rank.export import adapter, changes, export, fusion_weights, pairs, probes, solr_features
from online_rank.export.pair_tables import pairs_as_json
from online_rank.export.probing import Probes
from online_rank.export.reading import Names
from online_rank.export.table import TARGETS
from online_rank.export.verifying.asking import probes_beside
from online_rank.query import Runs


def _names(given: Sequence[str]) -> Names:
    """The names of features in the target, as `export` takes them: from NAME=TARGET, or files of JSON, {NAME: TARGET}."""
    names: dict[str, Any] = {}
    for one in given:
        name, equals, target = one.partition("=")
        names |= {name: target} if equals else _read(one)
    return names or None


def _read(path: str) -> dict[str, Any]:
    """Names and templates from a file of JSON."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"--map-feature {path}: neither NAME=TARGET nor a file of JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"--map-feature {path}: it does not contain an object {{NAME: TARGET}}")
    return found


def run(
    path: str,
    to: str,
    out: str | None,
    name: str,
    renamed: Sequence[str],
    features_out: str | None,
    runs: Sequence[str],
    probes_out: str | None = None,
) -> None:
    """Write a model as `to` to a file, or to standard output; `runs` are TREC runs with queries for targets that fuse."""
    if features_out is not None and not to.startswith("solr"):
        raise ValueError("--features-out writes Solr's feature store: give it with --to solr")
    fuses = to in TARGETS and "fusion" in TARGETS[to].kinds
    if probes_out is not None and fuses:
        raise ValueError(f"--probes: {TARGETS[to].title} fuses lists of retrievers, for which there are no probes")
    if probes_out is None and out is not None and to in TARGETS and not fuses:
        probes_out = probes_beside(out)
    check_outputs([path, *runs, *renamed], out=out, features_out=features_out, probes=probes_out)
    model, names = load_model(path), _names(renamed)
    queries = [query.runs for query in read_runs(runs)] if runs else None
    if runs:
        require_runs(model, runs)
    content = export(model, to, name=name, names=names, queries=queries)
    if "fusion" in TARGETS[to].kinds:
        _notice_fusion(model, to, queries)
    if features_out is not None:
        Path(features_out).write_text(json.dumps(solr_features(model, names=names), indent=2, ensure_ascii=False) + "\n")
    _notice_certificates(model)
    if probes_out is not None:
        made = probes(model, to, name=name, names=names)
        Path(probes_out).write_text(made.to_json(), encoding="utf-8")
        _notice_probes(made, probes_out, out)
    _write(content, to, out)


def write_matrix(path: str, to: str, out: str | None, name: str, vector: str) -> None:
    """Write the matrix of a vector as `to` to a file, or to standard output."""
    check_outputs([path], out=out)
    _write(adapter(load_model(path), to, vector=vector, name=name), to, out)


def write_pairs(path: str, most: int, out: str | None) -> None:
    """Print the strongest pairs of features as tables, or write them to a file, as JSON if it is called so."""
    check_outputs([path], out=out)
    found = pairs(load_model(path), most=most)
    as_json = out is not None and out.endswith(".json")
    _write(pairs_as_json(found) if as_json else "\n".join(table.in_words() for table in found), "pairs", out)


def _write(content: str | bytes, to: str, out: str | None) -> None:
    data = content.encode() if isinstance(content, str) else content
    if out is not None:
        Path(out).write_bytes(data)
        return
    if isinstance(content, bytes) and sys.stdout.isatty():
        raise ValueError(f"{to} is a binary format; give a file to write to: --out FILE")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def look_at_files(path: str, check: str | None, reading: Reading, runs: Sequence[str]) -> None:
    """Print what is in the graded queries of `--check`, or in the runs, and end the command."""
    if check is not None:
        check_files([check])
        reading.asked([check], load_model(path))
    if not runs:
        raise ValueError("--dry-run shows what is in files: give --check FILE, or --run for each retriever")
    look_at_runs(runs)


def check_on(path: str, to: str, renamed: Sequence[str], file: str, reading: Reading) -> None:
    """Print how the target's rankings of graded queries differ from the model's."""
    check_files([file])
    model = load_model(path)
    with reading.asked([file], model) as queries:
        found = changes(model, to, queries, names=_names(renamed))
    say(
        f"of {found.n_queries:,} queries, {found.otherwise:.1%} are ranked differently from the model, "
        f"{found.first:.1%} with another first document; NDCG@10 {found.there:.4f} there, {found.here:.4f} here"
    )


def _notice_fusion(model: Any, to: str, queries: Sequence[Runs] | None) -> None:
    """Print how the target's rankings differ from the model's."""
    found, title = fusion_weights(model, to, queries=queries), TARGETS[to].title
    if found.why_fitted is not None:
        say(f"{title} cannot compute this model: {found.why_fitted}. These are the nearest weights")
    elif found.note is not None:
        say(f"{title} differs: {found.note}")
    if queries is not None and found.changed is not None and found.changed_first is not None:
        say(
            f"of {len(queries):,} queries, {found.changed:.1%} are ranked differently from the model, "
            f"{found.changed_first:.1%} in the first ten"
        )


def _notice_probes(made: Probes, probes_out: str, out: str | None) -> None:
    """Print where the probes are, and which splits none of them reaches."""
    n = sum(map(len, made.queries))
    command = f"online-rank verify {out}" if out is not None else "online-rank verify"
    reached = f", which reach {made.reached / made.splits:.1%} of the sides of splits" if made.reached < made.splits else ""
    say(f"{probes_out}: {n:,} probe documents{reached}; {command} asks the engine for their scores")


def _notice_certificates(model: Any) -> None:
    """Print what the model's certificate, if any, does not cover."""
    from online_rank.base import serving_chain
    from online_rank.bounds import LossTracker

    if any(isinstance(part, LossTracker) for part in serving_chain(model)):
        say("the certificate is of what the model computes here; an engine that rounds otherwise is not covered")
