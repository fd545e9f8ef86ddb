"""Does `check_ranker` find the bugs that authors of rankers make?

    python -m benchmarks.planted

A ranker that passes all checks gets one bug after the other (`tests/checks/planted.py`), and every check runs on each. The last
row is the ranker of docs/research.md whose `_grow` forgets what was learned.
"""

import re
import sys
import types
import warnings
from pathlib import Path

from benchmarks._common import ROOT, parser, save, table
from online_rank.checks import CheckFailed, yield_checks
from tests.checks.planted import FAULTS, Plain

#: A bug that the issues of this library knew by name, planted in the ranker of the documentation.
RIGHT = "self._weights = np.append(self._weights, np.zeros(n_new))"
WRONG = "self._weights = np.zeros(len(self._weights) + n_new)"


def failed(model: object) -> list[str]:
    """The names of the checks that a model fails."""
    names = []
    for check in yield_checks(model):
        try:
            check()
        except CheckFailed:
            names.append(check.name)
    return names


def documented_ranker(page: Path = ROOT / "docs" / "research.md", *, spoiled: bool) -> type:
    """The ranker that the documentation shows, with or without the bug."""
    source = next(code for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) if "class Rocchio" in code)
    if RIGHT not in source:
        raise SystemExit(f"{page} has no line {RIGHT!r}")
    # A module, since pickles name the module of a class.
    module = sys.modules["documented"] = types.ModuleType("documented")
    exec(source.replace("check_ranker(Rocchio())", "").replace(*((RIGHT, WRONG) if spoiled else (RIGHT, RIGHT))), vars(module))
    return module.Rocchio


def main() -> None:
    parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    clean = failed(Plain())
    rows = []
    for fault in FAULTS:
        found = failed(fault())
        what = (fault.__doc__ or "").strip().partition("\n")[0] if fault.__doc__ != Plain.__doc__ else ""
        rows.append((fault.__name__, what, found[0] if found else "**not found**", len(found)))
    found = failed(documented_ranker(spoiled=True)())
    rows.append(("Rocchio of docs/research.md", f"`{WRONG}`", found[0] if found else "**not found**", len(found)))
    caught = sum(row[3] > 0 for row in rows)
    save(
        "planted",
        f"""# Bugs planted in a ranker

{caught} of {len(rows)} are found by `check_ranker`. The ranker without a bug fails {len(clean)} checks.

{table(("class", "the bug", "the first check that fails", "checks that fail"), rows)}""",
    )


if __name__ == "__main__":
    main()
