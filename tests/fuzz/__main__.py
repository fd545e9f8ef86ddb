"""Fuzz readers of what comes from outside, with Atheris (extra `fuzz`).

    python -m tests.fuzz [--seconds 60] [--seed 0] [TARGET...]

Each target has a separate process and an equal share of the seconds. What made one fail is written to the folder `--found`,
and belongs into `corpus/TARGET/`, with the fix. The exit status is 1 if a target failed, and 0 if Atheris is not installed.
"""

import argparse
import importlib.util
import pkgutil
import re
import subprocess
import sys
import tempfile
from pathlib import Path

#: No module of the library is imported before Atheris is.
CORPUS = Path(__file__).parent / "corpus"
TARGETS = sorted(path.name for path in CORPUS.iterdir())
#: Longest input, seconds for one, and MB.
_LONGEST, _SLOWEST, _LARGEST = 4096, 20, 2048


def fuzz(name: str, options: list[str]) -> None:
    """Run one target in this process, which ends with it."""
    import atheris

    import online_rank._kernels as kernels

    # Numba reads the bytecode of kernels, which has to stay as it is: they are imported before.
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        importlib.import_module(module.name)
    with atheris.instrument_imports(include=["online_rank"]):
        from tests.fuzz.targets import feed
    # Compiles what is needed, which would take longer than an input may.
    for path in sorted((CORPUS / name).iterdir()):
        feed(name, path.read_bytes())
    atheris.Setup([sys.argv[0], *options], lambda data: feed(name, data))
    atheris.Fuzz()


def main() -> int:
    """Run the targets, and print what each did."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description="Fuzz readers of what comes from outside.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", default="fuzz-found", metavar="DIR")
    given = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("tests.fuzz: skipped, atheris is not installed (extra 'fuzz'; it has wheels for Linux)")
        return 0
    names, failed = given.targets or TARGETS, False
    Path(given.found).mkdir(exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as new:
            options = [
                f"-max_total_time={max(1, round(given.seconds / len(names)))}", f"-seed={given.seed + 1}",
                f"-max_len={_LONGEST}",
                f"-timeout={_SLOWEST}", f"-rss_limit_mb={_LARGEST}", f"-artifact_prefix={given.found}/{name}-",
                "-print_final_stats=1", new, str(CORPUS / name),
            ]  # fmt: skip
            child = subprocess.run(
                [sys.executable, "-c", f"from tests.fuzz.__main__ import fuzz; fuzz({name!r}, {options!r})"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        n = re.search(r"number_of_executed_units: (\d+)", child.stdout)
        print(f"{name}: {int(n[1]) if n else 0:,} executions, {'ok' if child.returncode == 0 else 'FAILED'}", flush=True)
        if child.returncode:
            failed = True
            print(child.stdout[-3000:])
    if not any(Path(given.found).iterdir()):
        Path(given.found).rmdir()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
