"""`online-rank export`: a saved model for other programs."""

import sys
from collections.abc import Sequence
from pathlib import Path

from online_rank.cli.files import load_model
from online_rank.export import export

__all__ = ["run"]


def run(path: str, to: str, out: str | None, name: str, names: Sequence[str] | None) -> None:
    """Write a model as `to` to a file, or to standard output."""
    content = export(load_model(path), to, name=name, names=names or None)
    data = content.encode() if isinstance(content, str) else content
    if out is not None:
        Path(out).write_bytes(data)
        return
    if isinstance(content, bytes) and sys.stdout.isatty():
        raise ValueError(f"{to} is no text; give a file to write to: --out FILE")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
