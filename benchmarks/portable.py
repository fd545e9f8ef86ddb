"""Has a learned model the same bits everywhere?

    python -m benchmarks.portable --objects FOLDER [--aarch64 COMMAND --aarch64-path FOLDER] [--queries 1000] [--keep FILE]

Models learn the same queries in processes of many kinds; from each comes a digest of the model's whole state and of its scores
of another query. `--objects` has the kernels of all targets, which this command makes:
`python -m online_rank.support.warm_up FOLDER x86-64-v4,x86-64-v3,x86-64,aarch64`.
A model whose digests differ must stand on the list `NOT_PORTABLE`, with the reason; else the command fails. Plain Python learns
fewer queries, which are compared with the same number elsewhere.

`--aarch64` runs a Python for aarch64, and `--aarch64-path` is a folder with its packages. On Debian, as root:

    apt-get install qemu-user debootstrap
    debootstrap --foreign --variant=minbase --arch=arm64 --include=python3.11 bookworm ARM
    for deb in ARM/var/cache/apt/archives/*.deb; do dpkg --fsys-tarfile $deb | tar -x --keep-directory-symlink -C ARM; done
    pip download --no-deps -d WHEELS --platform manylinux_2_28_aarch64 --python-version 311 numpy llvmlite scipy river narwhals
    for wheel in WHEELS/*.whl; do python -m zipfile -e $wheel PACKAGES; done
    python -m benchmarks.portable ... --aarch64-path PACKAGES --aarch64 \
        "env PYTHONHOME=ARM/usr qemu-aarch64 -L ARM ARM/usr/bin/python3.11 -S"
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._common import ROOT, parser, save, table
from benchmarks._kept import Kept, add_keep

#: Models whose bits depend on the machine, and why.
NOT_PORTABLE = {
    "DirectRanker()": "the BLAS computes its matrix products, in an order of additions that depends on the processor"
}

#: What turns off the instructions that numpy's and OpenBLAS's own code would choose.
_NUMPY = "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V3 X86_V4"

#: Kinds of processes: the target of their object of kernels, or none, and variables of the environment.
PROCESSES: dict[str, tuple[str | None, dict[str, str]]] = {
    "x86-64-v4": ("x86-64-v4", {}),
    "x86-64-v3": ("x86-64-v3", {}),
    "x86-64": ("x86-64", {}),
    "numba": (None, {"ONLINE_RANK_JIT": "1"}),
    "OPENBLAS_CORETYPE=Nehalem": ("x86-64-v3", {"OPENBLAS_CORETYPE": "Nehalem"}),
    "NPY_DISABLE_CPU_FEATURES": ("x86-64-v3", {"NPY_DISABLE_CPU_FEATURES": _NUMPY}),
    "aarch64": ("aarch64", {}),
    "plain Python": (None, {"NUMBA_DISABLE_JIT": "1"}),
}


def measured(
    name: str | None, checkpoints: list[int], objects: Path, *models: str, python: str = sys.executable, path: str = ""
) -> dict[str, Any]:
    """The digests of the models, all by default, in a process of this kind; None for one like this process."""
    target, variables = (None, {}) if name is None else PROCESSES[name]
    with tempfile.TemporaryDirectory() as folder:
        for found in objects.glob(f"{target}-*.o") if target else ():
            if target != "x86-64" or not found.name.startswith("x86-64-v"):
                shutil.copy(found, folder)
        environment = {
            **os.environ,
            **variables,
            **({} if target is None else {"ONLINE_RANK_CACHE_DIR": folder}),
            "PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)])),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [*shlex.split(python), "-m", "benchmarks._bits", ",".join(map(str, checkpoints)), *models]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: the process ended with {done.returncode}: {done.stderr[-600:]}")
        result = json.loads(done.stdout.splitlines()[-1])
        if target is not None and f"{folder}/{target}-" not in result["kernels"]:
            raise SystemExit(f"{name}: no object of {target} for these kernels in {objects}: {result['kernels']}")
    return result


def compared(found: Mapping[str, Mapping[str, Any]]) -> tuple[list[list[str]], list[str]]:
    """A row for each model, and the models that differ and are not on the list."""
    first, *_ = found.values()
    rows, wrong = [], []
    for model, expected in first["digests"].items():
        cells = []
        for result in found.values():
            digests = result["digests"][model]
            # Plain Python has the first checkpoint only.
            cells.append("same" if digests == expected[: len(digests)] else digests[-1])
        rows.append(["`{}`".format(model.replace("|", "\\|")), f"`{expected[-1]}`", *cells[1:]])
        if {*cells} != {"same"} and model not in NOT_PORTABLE:
            wrong.append(model)
    return rows, wrong


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--objects", type=Path, required=True, help="folder with the kernels of all targets")
    options.add_argument("--aarch64", metavar="COMMAND", help="runs a Python for aarch64")
    options.add_argument("--aarch64-path", default="", metavar="FOLDER", help="its packages")
    options.add_argument("--queries", type=int, default=1000)
    options.add_argument("--few", type=int, default=40, help="queries in plain Python")
    add_keep(options)
    given = options.parse_args()
    kept, found = Kept(given.keep), {}
    for name in PROCESSES:
        if name == "aarch64" and given.aarch64 is None:
            continue
        checkpoints = [given.few] if name == "plain Python" else [given.few, given.queries]
        other = {"python": given.aarch64, "path": given.aarch64_path} if name == "aarch64" else {}
        part = f"{name}, {checkpoints}"
        found[name] = kept.part(part, partial(measured, name, checkpoints, given.objects.resolve(), **other))
        print(f"{name}:", found[name], flush=True)
    rows, wrong = compared(found)
    first, *others = found
    text = f"""# The same bits everywhere

Each model learned {given.queries:,} queries ({given.few} in plain Python) in processes of each kind. The digest is of its whole
state and of its scores of another query; a cell says whether it equals the digest of the first kind.

{table(("model", first, *others), rows)}

Not portable, as stated: {"; ".join(f"`{name}`, since {reason}" for name, reason in NOT_PORTABLE.items())}.

{table(("process", "machine", "kernels"), [[name, each["where"], _kernels(each)] for name, each in found.items()])}

{kept.code}"""
    save("portable", text)
    if wrong:
        raise SystemExit(f"these differ, and are not on the list: {', '.join(wrong)}")


def _kernels(result: Mapping[str, Any]) -> str:
    text = result["kernels"]
    return Path(text).name if text.startswith("machine code of ") else text


if __name__ == "__main__":
    main()
