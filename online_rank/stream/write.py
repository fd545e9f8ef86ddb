"""Write LETOR text."""

import gzip
import io
import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
import numpy.typing as npt


def write_letor(
    file: str | os.PathLike[str] | IO[bytes] | IO[str],
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    qid: Sequence[Any] | np.ndarray | None = None,
    *,
    docid: Sequence[str] | None = None,
) -> None:
    r"""Write documents as LETOR text, one line each.

    Parameters
    ----------
    file : path or file object
        The output. A path that ends in ``.gz`` is compressed. To append, pass a file opened for appending.
    X : (n, d) float array
        Features, finite; columns are features 1, 2, ... Numbers read back are the same to the last bit.
    y : (n,) integers >= 0
        Grades.
    qid : (n,) integers or strings without white space or #, optional
        Ids of the queries. Without them, readers need the sizes of the groups.
    docid : (n,) str, optional
        Written as ``#docid = X``.

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
    X, y = np.asarray(X), np.asarray(y)
    for what, values in (("X", X), ("y", y)):
        if values.dtype.kind not in "biuf":
            raise TypeError(f"{what} has dtype {values.dtype}; it holds numbers")
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

    form = "".join(f" {j}:%s" for j in range(1, X.shape[1] + 1))
    with ExitStack() as stack:
        if isinstance(file, str | os.PathLike):
            opener = gzip.open if os.fspath(file).endswith(".gz") else open
            file = stack.enter_context(opener(file, "wt", encoding="utf-8", newline="\n"))
        is_text = isinstance(file, io.TextIOBase)
        for head, row, tail in zip(heads, X, tails, strict=True):
            # The shortest text that reads back exactly; integers without ".0", as usual in LETOR files.
            line = f"{head}{form % tuple(repr(value).removesuffix('.0') for value in row.tolist())}{tail}\n"
            file.write(line if is_text else line.encode())  # type: ignore[arg-type]
