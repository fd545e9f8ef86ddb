"""Write LETOR text, and runs in the format of TREC."""

import gzip
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from online_rank import arguments
from online_rank.support.progress import progress as shown_progress


def write_letor(
    file: str | os.PathLike[str] | IO[bytes] | IO[str],
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    qid: Sequence[Any] | np.ndarray | None = None,
    *,
    docid: Sequence[str] | None = None,
    digits: int | None = None,
    sparse: bool = False,
    zero_based: bool = False,
    progress: bool | None = None,
) -> None:
    r"""Write documents as LETOR text, one line each.

    Parameters
    ----------
    file : path or file object
        The output. A path that ends in ``.gz`` is compressed. To append, pass a file opened for appending.
    X : (n, d) float array, or pandas, polars or pyarrow table
        Features, finite. A table's columns are features 1, 2, ... in their order.
    y : (n,) integers >= 0
        Grades, or a column of a table, which may have a nullable type.
    qid : (n,) integers or strings without white space or #, optional
        Ids of the queries. Without them, readers need the sizes of the groups.
    docid : (n,) str, optional
        Written as ``#docid = X``.
    digits : int, optional
        Significant digits. By default as many as needed to read exactly the same numbers back.
    sparse : bool
        Whether to leave out zeros.
    zero_based : bool
        Whether feature ids start at 0 instead of 1.
    progress : bool, optional
        Whether to show a progress bar on stderr (extra `cli`); by default on a terminal only.

    Raises
    ------
    ValueError
        If shapes do not match, a value is not finite, a grade is not an integer >= 0, or an id would break its line. Nothing is
        then written.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> write_letor(out, [[0.5, 0.0], [0.1, 3.0]], [2, 0], ["a", "a"], docid=["x", "y"])
    >>> print(out.getvalue(), end="")
    2 qid:a 1:0.5 2:0 #docid = x
    0 qid:a 1:0.1 2:3 #docid = y
    """
    arguments.integer("digits", digits, 1, optional=True)
    arguments.flag("sparse", sparse)
    arguments.flag("zero_based", zero_based)
    X, y = _as_features(X), _as_numbers("y", y)
    if X.ndim != 2 or y.shape != (len(X),):
        raise ValueError(f"X must be (n, d) and y (n,), not {X.shape} and {y.shape}")
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0].tolist()
        raise ValueError(f"X[{row}, {column}] is {X[row, column]}: only finite values can be written")
    if not (y.dtype.kind in "iub" or (y == np.floor(y)).all()) or (y < 0).any():
        raise ValueError("y must hold integers >= 0")
    for name, ids in (("qid", qid), ("docid", docid)):
        if ids is not None and len(ids) != len(y):
            raise ValueError(f"{name} has {len(ids)} entries for {len(y)} documents")
    heads = [str(int(grade)) for grade in y]
    if qid is not None:
        names = [str(one) for one in qid]
        for i, name in enumerate(names):
            if not name or "#" in name or name.split() != [name]:
                raise ValueError(f"qid[{i}] is {name!r}: an id is not empty and has no white space and no #")
        heads = [f"{head} qid:{name}" for head, name in zip(heads, names, strict=True)]
    tails = [""] * len(y)
    if docid is not None:
        for i, name in enumerate(docid):
            if not name or name.split() != [name]:
                raise ValueError(f"docid[{i}] is {name!r}: an id is not empty and has no white space")
        tails = [f" #docid = {name}" for name in docid]

    labels = [f" {column + (not zero_based)}:" for column in range(X.shape[1])]
    form = "%s" if digits is None else f"%.{digits}g"
    dense = "".join(label + form for label in labels)
    with ExitStack() as stack:
        if isinstance(file, str | os.PathLike):
            opener = gzip.open if os.fspath(file).endswith(".gz") else open
            file = stack.enter_context(opener(file, "wt", encoding="utf-8", newline="\n"))
        is_text = isinstance(file, io.TextIOBase)
        show = stack.enter_context(shown_progress("writing", len(X), "documents", progress))
        for done, (head, row, tail) in enumerate(zip(heads, X, tails, strict=True)):
            values = row.tolist()
            if digits is None:
                # The shortest text that reads back exactly; integers without ".0", as usual in LETOR files.
                values = [repr(v).removesuffix(".0") for v in values]
            if sparse:
                columns = np.flatnonzero(row).tolist()
                body = "".join([labels[column] + form % values[column] for column in columns])
            else:
                body = dense % tuple(values)
            line = f"{head}{body}{tail}\n"
            file.write(line if is_text else line.encode())  # type: ignore[arg-type]
            show(done)


def run_lines(qid: str, docids: Sequence[str], scores: Sequence[float], tag: str) -> list[str]:
    r"""The lines of one query of a run, best score first; equal scores keep their order.

    Examples
    --------
    >>> run_lines("q1", ["a", "b"], [0.5, 2.0], "fused")
    ['q1 Q0 b 1 2.0 fused\n', 'q1 Q0 a 2 0.5 fused\n']
    """
    best_first = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return [f"{qid} Q0 {docids[i]} {rank} {scores[i]!r} {tag}\n" for rank, i in enumerate(best_first, start=1)]


def write_run(path: str | os.PathLike[str], run: Mapping[str, Mapping[str, float]], tag: str = "online_rank") -> None:
    """Write a run, `{qid: {docid: score}}`, with lines `qid Q0 docid rank score tag`, best score first.

    Equal scores keep their order in `rank`; trec_eval orders them by document id. The file appears whole or not at all.

    Raises
    ------
    ValueError
        An id is empty or has blanks, which separate the columns, or a score is no finite number.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run"
    >>> write_run(path, {"q1": {"a": 0.5, "b": 2.0}}, tag="fused")
    >>> print(path.read_text(), end="")
    q1 Q0 b 1 2.0 fused
    q1 Q0 a 2 0.5 fused
    """
    lines = []
    for qid, scores in run.items():
        for docid, score in scores.items():
            for what, word in (("query", qid), ("document", docid), ("tag", tag)):
                if len(str(word).split()) != 1:
                    raise ValueError(f"the {what} {word!r:.60} is empty or has blanks, which separate the columns of a run")
            if not np.isfinite(score):
                raise ValueError(f"query {qid}: the score of document {docid} is {score}; it must be a finite number")
        lines += run_lines(qid, [*scores], [*map(float, scores.values())], tag)
    new = Path(f"{os.fspath(path)}.new")
    new.write_text("".join(lines), encoding="utf-8")
    new.replace(path)


def _as_features(X: Any) -> np.ndarray:
    """Features as an array, including tables with nullable columns."""
    import narwhals

    if not narwhals.dependencies.is_into_dataframe(X):
        return _as_numbers("X", X)
    frame = narwhals.from_native(X, eager_only=True)
    columns = [_as_numbers(f"column {name!r}", frame.get_column(name).to_native(), float) for name in frame.columns]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))


def _as_numbers(name: str, values: Any, dtype: Any = None) -> np.ndarray:
    """A column as an array of numbers. Raises ValueError that names the column, and the row of a missing value."""
    import narwhals

    if not narwhals.dependencies.is_into_series(values):
        array = np.asarray(values, dtype)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {array.dtype}; it holds numbers")
        return array
    series = narwhals.from_native(values, series_only=True)
    missing = series.is_null().to_numpy()
    if missing.any():
        raise ValueError(f"{name}, row {int(missing.argmax())}: the value is missing")
    if not (series.dtype.is_numeric() or series.dtype == narwhals.Boolean):
        raise TypeError(f"{name} is of type {series.dtype}; it holds numbers")
    array = series.to_numpy()
    # pandas converts columns of nullable types to objects.
    return array.astype(dtype or (np.int64 if series.dtype.is_integer() else np.float64)) if array.dtype == object else array
