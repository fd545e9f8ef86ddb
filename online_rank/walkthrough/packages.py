"""Recommendations from raw fields: the other packages that a Debian package needs."""

import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from online_rank import PerceptronRanker, StreamQuantileMap
from online_rank.metrics import metric
from online_rank.support.progress import progress
from online_rank.walkthrough._say import course, heading, say, show

_N_PAGES, _WINDOWS = 2000, 20
#: Most needed packages on a page, others that packages before needed, and others of the same section.
_MOST, _NEEDED, _NEIGHBOURS = 6, 12, 12
_DEPENDS = {"Depends": 2, "Recommends": 1, "Suggests": 1}


class Package(NamedTuple):
    """The data about a package; `needs` has names with grades, 2 for dependencies and 1 for recommendations."""

    name: str
    words: frozenset[str]
    section: str
    maintainer: str
    size: float
    needs: dict[str, int]


def packages(lines: Iterable[str]) -> Iterator[Package]:
    """The packages of a list, as `apt-cache dumpavail` prints it."""
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.rstrip("\n").partition(": ")
        if colon and not name.startswith(" "):
            fields[name] = value
        elif not line.strip() and fields:
            yield _package(fields)
            fields = {}
    if fields:
        yield _package(fields)


def _package(fields: dict[str, str]) -> Package:
    needs: dict[str, int] = {}
    for field, grade in _DEPENDS.items():
        for needed in re.findall(r"(?:^|, )([a-z0-9][a-z0-9+.-]+)", fields.get(field, "")):
            needs.setdefault(needed, grade)
    name = fields["Package"]
    words = frozenset(re.findall(r"[a-z0-9]+", f"{name} {fields.get('Description', '')}".lower()))
    size = float(fields.get("Installed-Size", 0))
    return Package(name, words, fields.get("Section", ""), fields.get("Maintainer", ""), size, needs)


class Shop:
    """Pages of candidates, one for each package, with features from earlier pages."""

    def __init__(self, all_packages: Iterable[Package]) -> None:
        self.packages = {package.name: package for package in all_packages}
        self.in_section: dict[str, list[str]] = {}
        for package in self.packages.values():
            self.in_section.setdefault(package.section, []).append(package.name)
        self.n_with = Counter(word for package in self.packages.values() for word in package.words)
        self.words = sum(len(package.words) for package in self.packages.values()) / max(1, len(self.packages))
        self.needed: list[str] = []
        self.needed_by: Counter[str] = Counter()
        self.needed_in: Counter[tuple[str, str]] = Counter()

    def pages(self, n: int) -> Iterator[tuple[dict[str, dict[str, float]], dict[str, int]]]:
        """`{candidate: features}` and `{candidate: grade}` of up to `n` packages, in random order."""
        rng = np.random.default_rng(0)
        order = [self.packages[name] for name in sorted(self.packages)]
        for i in rng.permutation(len(order)).tolist():
            package = order[i]
            grades = {name: grade for name, grade in package.needs.items() if name in self.packages and name != package.name}
            grades = dict(list(grades.items())[:_MOST])
            if not grades or n == 0:
                continue
            page = self._with_others(package, grades, rng)
            yield {name: self.features(package, self.packages[name]) for name in page}, page
            self._remember(package, grades)
            n -= 1

    def _with_others(self, package: Package, grades: dict[str, int], rng: np.random.Generator) -> dict[str, int]:
        """The grades of a page: of those needed, and 0 of others, in random order."""
        section = self.in_section[package.section]
        others = [section[i] for i in rng.integers(len(section), size=_NEIGHBOURS)]
        if self.needed:
            others += [self.needed[i] for i in rng.integers(len(self.needed), size=_NEEDED)]
        names = [*grades, *(name for name in dict.fromkeys(others) if name not in package.needs and name != package.name)]
        return {names[i]: grades.get(names[i], 0) for i in rng.permutation(len(names))}

    def features(self, package: Package, other: Package) -> dict[str, float]:
        """Raw counts, sizes and flags: nothing is scaled, and missing values are 0."""
        return {
            "bm25": self.bm25(package, other),
            "needed by": float(self.needed_by[other.name]),
            "needed in the section by": float(self.needed_in[package.section, other.name]),
            "kilobytes": other.size,
            "kilobytes of both": other.size / (1.0 + package.size),
            "letters shared": float(_shared(package.name, other.name)),
            "same section": float(package.section == other.section),
            "same maintainer": float(package.maintainer == other.maintainer),
            f"section {other.section}": 1.0,
        }

    def bm25(self, package: Package, other: Package) -> float:
        """BM25 of a package's words in another's (k = 1.2, b = 0.75), with binary term frequencies."""
        n, length = len(self.packages), 0.25 + 0.75 * len(other.words) / self.words
        each = (math.log1p((n - self.n_with[word] + 0.5) / (self.n_with[word] + 0.5)) for word in package.words & other.words)
        return sum(each) * 2.2 / (1.0 + 1.2 * length)

    def _remember(self, package: Package, grades: dict[str, int]) -> None:
        self.needed += grades
        self.needed_by.update(grades.keys())
        self.needed_in.update((package.section, name) for name in grades)


def run(file: str | None = None) -> None:
    """Rank candidates by BM25, by popularity, and by a model that learns from each page, and compare."""
    heading("Which other packages does a package need?")
    lines = _lists(file)
    if lines is None:
        say("""There are no package lists here. On Debian and its derivatives `apt-get update` fetches them; a file in their
            format can be given as an argument. Nothing to show.""")
        return
    shop = Shop(packages(lines))
    say(f"""{len(shop.packages):,} packages. A page is one of them; the candidates are the packages it needs, and others from
        its section or needed by earlier packages. The features are raw: counts up to thousands, kilobytes, a BM25 score, flags,
        and one name for each section. Those of a candidate:""")
    model = StreamQuantileMap() | PerceptronRanker()
    rankers: dict[str, Any] = {
        "BM25": lambda page: {name: features["bm25"] for name, features in page.items()},
        "popularity": lambda page: {name: features["needed by"] for name, features in page.items()},
        "learned": model.predict_one,
    }
    all_pages = list(shop.pages(_N_PAGES))
    if not all_pages:
        say("No package of this list needs another one. Nothing to show.")
        return
    shown, features = next(iter(all_pages[-1][0].items()))
    show(f"{shown}: {', '.join(f'{name} {value:.4g}' for name, value in features.items())}")
    size = max(1, len(all_pages) // _WINDOWS)
    seen: dict[str, list[Any]] = {name: [] for name in rankers}
    with progress("learning", len(all_pages), "pages") as met:
        for t, (page, grades) in enumerate(all_pages):
            for name, scores in rankers.items():
                if t % size == 0:
                    seen[name].append(metric("ndcg@10"))
                seen[name][-1].update(grades, scores(page))
            model.learn_one(page, grades)
            met(t + 1)
    heading("NDCG@10 of each page before it was learned")
    for name, windows in seen.items():
        values = [window.get() for window in windows]
        show(f"{name:<12}{course(values, 0.0, 1.0)}  {sum(values) / len(values):.3f}")
    say("Nothing was tuned or scaled: `StreamQuantileMap() | PerceptronRanker()` learned from the first page on.")


def _shared(a: str, b: str) -> int:
    """The length of the common prefix of two names."""
    return next((i for i, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


def _lists(file: str | None) -> Iterable[str] | None:
    """Lines of the package lists, from a file or from this machine; None if there are none."""
    if file is not None:
        return Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    if shutil.which("apt-cache") is None:
        return None
    found = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, errors="replace", check=False)
    return found.stdout.splitlines() if found.returncode == 0 and found.stdout.strip() else None
