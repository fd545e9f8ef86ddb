"""Puts the tables of the benchmarks into the README, the guides and benchmarks/README.md: no number there is typed by hand.

    python -m benchmarks.report [--run [NAME ...]] [--check [NAME ...] --limit 600]

Between `<!-- begin NAME -->` and `<!-- end NAME -->` comes the first table of benchmarks/results/NAME.md (of
`<!-- begin NAME 2 -->` the second, of `<!-- begin NAME threads -->` that under the heading `threads`), and a line with date,
machine and versions. Of the tables in `SHOWN` the pages have a part.
The headline, the README's table, takes figures of several results. The bars of throughput come from its table. `--run`
measures the named benchmarks first, or without a name all that the pages show; that can take long. `--check` makes results
again, in a separate folder, and compares every figure that is no time; it names what a page does not say, and how many figures
are not made again, with the reason (`benchmarks/_catalogue.py`). It also names the pages that do not show what the results
have, and the figures of docs/papers.md that are not on the page of their command.
"""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks._again import Compared, check_page, unsaid
from benchmarks._catalogue import entry, since
from benchmarks._common import RESULTS, ROOT, parser, table

README, PAPERS = ROOT / "README.md", ROOT / "docs" / "papers.md"

#: The pages with tables, and how their links reach the results.
PAGES = {
    README: "benchmarks/results",
    ROOT / "benchmarks" / "README.md": "results",
    ROOT / "docs" / "clicks.md": "../benchmarks/results",
    ROOT / "docs" / "comparison.md": "../benchmarks/results",
    ROOT / "docs" / "data.md": "../benchmarks/results",
    ROOT / "docs" / "rankers.md": "../benchmarks/results",
    ROOT / "docs" / "river.md": "../benchmarks/results",
}

_BLOCK = re.compile(r"<!-- begin (?P<name>\w+)(?: (?P<number>\w+))? -->\n.*?<!-- end (?P=name) -->", re.DOTALL)
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_COMMAND = re.compile(r"^`python -m .*`$", re.MULTILINE)
_MEASURED = re.compile(r"^Measured on ((\d{4}-\d\d-\d\d)(?: at \w+\+?)?): (.*)\.$", re.MULTILINE)


class Part(NamedTuple):
    """What the README shows of a table; None stands for all."""

    rows: tuple[str, ...] | None = None
    """Their names; one that ends in * stands for all that begin so."""
    columns: tuple[str, ...] | None = None


SHOWN = {
    "default": Part(
        rows=("default: *", "map | PerceptronRanker()", "scaler | *", "LightGBM"),
        columns=("", "mq2008", "lightgbm", "additive", "forest", "linear", "yeast", "text", "drifting"),
    ),
    "quality": Part(
        rows=(
            "random ranking",
            "PerceptronRanker()*",
            "map | PerceptronRanker()",
            "map | RidgeRanker()",
            "AdditiveRanker()",
            "LightGBM*",
            "XGBoost*",
        ),
        columns=(
            "NDCG@10, one pass",
            "mq2008",
            "mq2008, difference",
            "lightgbm_lambdarank",
            "lightgbm_lambdarank, difference",
        ),
    ),
    "direct_quality": Part(
        rows=("DirectRanker", "RankNet", "LambdaMART*", "AdaRank", "Rank LR*", "perceptron"),
        columns=("method", "NDCG@10", "MAP", "published, NDCG@10 / MAP"),
    ),
    "throughput": Part(
        rows=(
            "X @ w, the whole block at once",
            "PerceptronRanker(credit='argmax'), learn_many",
            "PerceptronRanker(credit='spread'), learn_many",
            "PerceptronRanker(), learn_many",
            "PerceptronRanker(), learn_one",
            "StreamScaler() | PerceptronRanker(), learn_many",
            "GradientRanker(), learn_many",
            "GradientRanker(optimizer='adagrad'), learn_many",
            "DirectRanker(), learn_many",
            "river LogisticRegression*",
            "scikit-learn SGDClassifier*",
            "Vowpal Wabbit*",
            "LightGBM lambdarank",
            "XGBoost rank:ndcg",
        ),
        columns=("", "queries/s", "time / X @ w", "NDCG@10", "memory, MB", "remark"),
    ),
    "clicks": Part(
        rows=("10",),
        columns=(
            "users",
            "runs",
            "online, less PDGD",
            "after 100, less PDGD",
            "after 1,000, less PDGD",
            "after 10,000, less PDGD",
        ),
    ),
}


class Table(NamedTuple):
    """A table of a result."""

    header: list[str]
    rows: list[list[str]]

    @classmethod
    def parsed(cls, text: str) -> "Table":
        """The table in its Markdown; `\\|` is a bar within a cell."""
        header, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.strip().splitlines())
        return cls(header, rows)

    def part(self, name: str, part: Part) -> "Table":
        """The chosen rows and columns. Raises SystemExit when the table has none such."""
        rows = self.rows
        if part.rows is not None:
            for wanted in part.rows:
                if not any(_is(row, wanted) for row in rows):
                    raise SystemExit(
                        f"the table of {name} has no row {wanted!r}: which rows are shown stands in benchmarks/report.py"
                    )
            rows = [row for row in rows if any(_is(row, wanted) for wanted in part.rows)]
        columns = self.header if part.columns is None else part.columns
        if missing := set(columns) - set(self.header):
            raise SystemExit(f"the table of {name} has no column {missing}: which are shown stands in benchmarks/report.py")
        places = [self.header.index(column) for column in columns]
        return Table(list(columns), [[row[place] for place in places] for row in rows])


def _is(row: Sequence[str], name: str) -> bool:
    """Whether a row has a name; one that ends in * may continue in any way."""
    title = row[0].replace("\\|", "|")
    return title.startswith(name[:-1]) if name.endswith("*") else title == name


#: The bars of the picture of throughput, and the rows that they stand for.
BARS = {
    "limit: X @ w and no learning": "X @ w, the whole block at once",
    "online_rank perceptron, argmax": "PerceptronRanker(credit='argmax'), learn_many",
    "online_rank perceptron": "PerceptronRanker(), learn_many",
    "online_rank perceptron, one by one": "PerceptronRanker(), learn_one",
    "online_rank neural": "DirectRanker(), learn_many",
    "Vowpal Wabbit csoaa_ldf": "Vowpal Wabbit --csoaa_ldf m",
    "river on pairs, frames": "river LogisticRegression, learn_many, 120 pairs",
    "scikit-learn SGD on pairs": "scikit-learn SGDClassifier, partial_fit, 120 pairs",
    "river on pairs, dicts": "river LogisticRegression, learn_one, 120 pairs",
    "LightGBM, batch (another task)": "LightGBM lambdarank",
    "XGBoost, batch (another task)": "XGBoost rank:ndcg",
}


def rates(results: Path = RESULTS) -> dict[str, float]:
    """Queries a second of the bars, from the first table of throughput."""
    found = Table.parsed(_tables("throughput", results)[0]).part("throughput", Part((*BARS.values(),), ("", "queries/s")))
    by_row = {row[0]: float(row[1].replace(",", "")) for row in found.rows}
    return {name: by_row[row] for name, row in BARS.items()}


def draw_throughput(path: Path, results: Path = RESULTS) -> None:
    """The bars of throughput; the file says what it was drawn from."""
    import matplotlib

    matplotlib.use("Agg")
    from benchmarks._pictures import throughput

    shown = rates(results)
    figure = throughput(shown, unit="queries learned a second").figure
    figure.savefig(path, dpi=200, metadata={"Description": json.dumps(shown)})


def shown(text: str) -> list[str]:
    """Names of the benchmarks whose tables a text shows."""
    return list(dict.fromkeys(match["name"] for match in _BLOCK.finditer(text) if match["name"] != "headline"))


def block(name: str, which: int | str = 1, results: Path = RESULTS, linked: str = "benchmarks/results") -> str:
    """A table of a result and where it comes from, or the headline. Raises SystemExit when the result does not have it.

    The table is known by its number, or by the heading under which it is the first.
    """
    if name == "headline":
        return headline(results)
    if isinstance(which, str) and not which.isdigit():
        return _of_section(name, which, results, linked)
    number = int(which)
    path = results / f"{name}.md"
    tables = _tables(name, results)
    measured = _MEASURED.search(path.read_text())
    if number > len(tables) or measured is None:
        what = f"has {len(tables)} tables, not {number}" if number > len(tables) else "has no date"
        raise SystemExit(f"{path} {what}: run python -m benchmarks.{name}")
    shown = Table.parsed(tables[number - 1]).part(name, SHOWN[name]) if name in SHOWN and number == 1 else None
    found = tables[number - 1] if shown is None else f"{table(*shown)}\n"
    source = f"`python -m benchmarks.{name}`, [in full]({linked}/{name}.md)"
    return f"{found}\n{source}. Measured on {measured[1]}: {measured[3]}.{since(found, measured[2])}"


def _of_section(name: str, heading: str, results: Path, linked: str) -> str:
    """The table under a heading of a result, and its command. Raises SystemExit when it is missing."""
    path = results / f"{name}.md"
    _, _, after = path.read_text().partition(f"\n## {heading}\n")
    section = after.partition("\n## ")[0]
    tables, measured, commands = _TABLE.findall(section), _MEASURED.search(section), _COMMAND.findall(section)
    if not (tables and measured and commands):
        raise SystemExit(f"{path} has no table under {heading}: run python -m benchmarks.{name} --only {heading}")
    source = f"{commands[-1]}, [in full]({linked}/{name}.md)"
    return f"{tables[0]}\n{source}. Measured on {measured[1]}: {measured[3]}.{since(tables[0], measured[2])}"


class Headline(NamedTuple):
    """A row of the README's table, by the names that it has on the pages of its figures."""

    shown: str
    mq2008: str
    """On the pages `online_peers` and `quality`."""
    year: str
    rate: str
    """On the page `default_cost`, among others."""


_WABBIT, _RIVER = "Vowpal Wabbit --csoaa_ldf m", "river StandardScaler | LogisticRegression()"
_BATCH = "LightGBM, 31 leaves, rate 0.1"
HEADLINE = (
    Headline("`AdditiveRanker()`, the default", "AdditiveRanker()", "AdditiveRanker()", "AdditiveRanker()"),
    Headline("LightGBM", _BATCH, "LightGBM, last 7 days", "LightGBM lambdarank, 100 trees"),
    Headline("Vowpal Wabbit", _WABBIT, _WABBIT, _WABBIT),
    Headline("river, logistic regression on pairs", _RIVER, _RIVER, "river LogisticRegression, learn_many, 120 pairs"),
)


def headline(results: Path = RESULTS) -> str:
    """The first screen's table: ranking quality on a benchmark and on a stream that drifts, and speed."""
    mq2008 = _column("quality", 1, "mq2008", results) | _column("online_peers", 1, "mq2008", results)
    year, rate = _column("year", 1, "mean", results), _column("default_cost", 2, "queries learned a second", results)
    # The page of batch learners has differences to LightGBM, which are turned round, and the other one to the default.
    behind = _turned(_column("quality", 1, "mq2008, difference", results)[HEADLINE[0].mq2008])
    away = _column("online_peers", 1, "mq2008, difference", results) | {_BATCH: behind}
    apart = _column("year", 1, "difference", results)
    header = [
        "",
        "NDCG@10 on MQ2008 (less the default)",
        "NDCG@10 on a year that drifts (less LightGBM)",
        "queries learned a second",
    ]
    rows = [
        [
            row.shown,
            _with(mq2008[row.mq2008].partition(" ")[0][:6], away.get(row.mq2008, "")),
            _with(year[row.year], apart.get(row.year, "")),
            rate[row.rate],
        ]
        for row in HEADLINE
    ]
    served = _column("serving", 1, "requests a second", results)["/rank and /learn, journal on the disk"]
    linked = "benchmarks/results"
    days = [
        _MEASURED.search((results / f"{name}.md").read_text()) for name in ("quality", "online_peers", "year", "default_cost")
    ]
    last = max(day[2] for day in days if day)
    note = (
        "All with their defaults; differences ± standard error. MQ2008: held-out queries after one pass "
        f"([online learners]({linked}/online_peers.md); [LightGBM]({linked}/quality.md), its rounds chosen on validation "
        f"parts). [The year]({linked}/year.md): 73,000 queries, each ranked before it is learned; "
        "what users want turns slowly and jumps twice, and LightGBM is retrained every night. "
        f"[Speed]({linked}/default_cost.md#next-to-other-libraries): one core, 120 documents with 136 raw features a query. "
        f"A [service]({linked}/serving.md) answered {served} requests a second, `/rank` and `/learn` with its journal on "
        "the disk (2026-11-22, two cores, 32 connections, 20 documents with 46 features). "
        f"The table was measured on {last} and before.{since(HEADLINE[0].mq2008, last)}"
    )
    return f"{table(header, rows)}\n\n{textwrap.fill(note, 128, break_long_words=False, break_on_hyphens=False)}"


def _with(value: str, difference: str) -> str:
    """A figure, and its difference in parentheses, unless it is empty."""
    return f"{value} ({difference})" if difference else value


def _turned(difference: str) -> str:
    """A difference the other way round."""
    return difference.translate(str.maketrans("+-", "-+"))


def _column(name: str, number: int, column: str, results: Path) -> dict[str, str]:
    """A column of a table of a result, by the names of its rows."""
    header, rows = Table.parsed(_tables(name, results)[number - 1])
    return {row[0].replace("\\|", "|"): row[header.index(column)] for row in rows}


def _tables(name: str, results: Path) -> list[str]:
    """The tables of a result, as Markdown. Raises SystemExit for an unknown result."""
    path = results / f"{name}.md"
    if not path.exists():
        raise SystemExit(f"there is no result {path}: run python -m benchmarks.{name}")
    return _TABLE.findall(path.read_text())


def rewritten(text: str, results: Path = RESULTS, linked: str = "benchmarks/results") -> str:
    """A text with every block as the results have it now. Raises SystemExit when a begin has no end."""

    def replacement(match: re.Match[str]) -> str:
        name, number = match["name"], match["number"]
        begin = f"<!-- begin {name}{f' {number}' if number else ''} -->"
        return f"{begin}\n{block(name, number or 1, results, linked)}\n<!-- end {name} -->"

    if text.count("<!-- begin ") != len(_BLOCK.findall(text)):
        raise SystemExit("a <!-- begin NAME --> has no <!-- end NAME --> of the same name")
    return _BLOCK.sub(replacement, text)


def check(names: Sequence[str], limit: float) -> bool:
    """Make results again and compare them; prints a line for each. Returns whether all said how, and none differs."""
    good, total = True, Compared()
    for name in names or sorted(path.stem for path in RESULTS.glob("*.md")):
        page = (RESULTS / f"{name}.md").read_text()
        lacking, (found, reasons) = unsaid(page), check_page(name, page, limit)
        said = "".join(f"; it does not say its {what}" for what in lacking)
        print(f"{name}: {counted(found)}{said}", *found.changed, *reasons, sep="\n    ", flush=True)
        good, total = good and not lacking and not found.changed, total.plus(found)
    print(f"In all: {counted(total)}.")
    for path, linked in PAGES.items():
        if rewritten(path.read_text(), linked=linked) != path.read_text():
            print(f"{path.relative_to(ROOT)} does not show what the results have: run python -m benchmarks.report")
            good = False
    lacking = unmade(PAPERS.read_text())
    print("docs/papers.md: every figure is on its page." if not lacking else f"docs/papers.md: not on its page: {lacking}")
    return good and not lacking


def unmade(papers: str, results: Path = RESULTS) -> list[str]:
    """Figures such as .738 in the last column of docs/papers.md that the page of the row's command does not have."""
    lacking, name = [], ""
    for line in papers.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 4:
            continue
        if (command := re.search(r"python -m benchmarks\.(\w+)", cells[1])) is not None:
            name = command[1]
        elif not cells[1].startswith("the same"):
            name = ""
        # Errors of means follow from the page's deviations between five folds.
        figures = re.findall(r"(?<![\d.])\.\d{3}\b", re.sub(r"± \.\d+", "", cells[3])) if name else []
        page = (results / f"{name}.md").read_text() if figures else ""
        lacking += [f"{cells[0]}: {figure}" for figure in figures if f"0{figure}" not in page]
    return lacking


def counted(found: Compared) -> str:
    """What came back, in words."""
    left = f", {found.left:,} not made again, with reasons" if found.left else ""
    return f"{found.same:,} figures the same, {len(found.changed):,} not{left}; {found.times:,} are times"


def described(name: str, page: str) -> str:
    """A page that says, under each `Measured on`, the seeds, about how long it takes where it does not know better, and which
    models have changed since.
    """
    title, lines, told = "", page.splitlines(), list[str]()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(("# ", "## ")):
            title = line.lstrip("# ")
        known = entry(name, title)
        if _MEASURED.match(line) and known.seeds and not below.startswith(("Seeds: ", "It took ")):
            told += [line, f"Seeds: {known.seeds}." + (f" It takes about {known.takes}." if known.takes else "")]
        elif line.startswith("It took ") and known.seeds:
            told.append(f"Seeds: {known.seeds}. {line}")
        else:
            told.append(line)
    return "".join(map(_with_changes, re.split(r"(?m)^(?=## )", "\n".join(told).rstrip() + "\n")))


def _with_changes(section: str) -> str:
    """A section whose line of seeds says which of its models were others when it was measured."""
    measured = _MEASURED.search(section)
    then = since("".join(_TABLE.findall(section)), measured[2]) if measured else ""
    return re.sub(r"(?m)^(Seeds: .*?)(?: `\w+\(\)` (?:had|was) .* then\.)?$", lambda found: found[1] + then, section)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--run", nargs="*", metavar="NAME")
    arguments.add_argument("--check", nargs="*", metavar="NAME")
    arguments.add_argument("--limit", type=float, default=600.0, help="seconds for each result that is made again")
    given = arguments.parse_args()
    if given.check is not None:
        raise SystemExit(not check(given.check, given.limit))
    if given.run is not None:
        for name in given.run or dict.fromkeys(name for page in PAGES for name in shown(page.read_text())):
            print(f"python -m benchmarks.{name}", file=sys.stderr)
            subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT, check=True)
    for path in RESULTS.glob("*.md"):
        path.write_text(described(path.stem, path.read_text()))
    for page, linked in PAGES.items():
        text = page.read_text()
        page.write_text(rewritten(text, linked=linked))
        print(f"{page.relative_to(ROOT)}: {', '.join(shown(text)) or 'shows no benchmark'}")
    draw_throughput(RESULTS / "throughput.png")


if __name__ == "__main__":
    main()
