"""What does an installation take, and what for? The size of each package, without what Python compiles of it.

    python -m benchmarks.packages

Reads the environment in which it runs, in which the extras are installed. A service is the extras cli and serve.
"""

import re
from collections.abc import Collection, Iterator
from importlib import metadata

from packaging.requirements import Requirement

from benchmarks._common import parser, save, table

#: What each package is used for, by the package that asks for it.
USES = {
    "llvmlite": "numba: machine code of kernels",
    "narwhals": "reads tables of pandas, polars and pyarrow",
    "numba": "compiles kernels that were not compiled ahead",
    "numpy": "arrays",
    "river": "conventions of models, transformers, metrics",
    "scipy": "sparse queries; numba's linear algebra; special functions",
    "annotated-doc": "typer",
    "annotated-types": "pydantic",
    "anyio": "starlette, httpx",
    "certifi": "httpx: certificates",
    "click": "uvicorn",
    "h11": "uvicorn, httpcore",
    "httpcore": "httpx",
    "httptools": "serve: reads HTTP",
    "httpx": "client, readers",
    "idna": "anyio, httpx: names of hosts",
    "markdown-it-py": "rich",
    "mdurl": "markdown-it-py",
    "msgspec": "serve: reads and checks JSON",
    "prometheus-client": "serve: figures for Prometheus",
    "psycopg": "state in PostgreSQL",
    "psycopg-binary": "psycopg: libpq and its libraries",
    "pydantic": "typer",
    "pydantic-core": "pydantic",
    "pygments": "rich",
    "rich": "typer: help and errors; bars of progress",
    "shellingham": "typer: completion in shells",
    "sniffio": "httpcore: which event loop runs",
    "starlette": "serve: answers, routes for applications of others",
    "typer": "cli: options of commands",
    "typing-extensions": "anyio, pydantic, starlette",
    "typing-inspection": "pydantic",
    "uvicorn": "serve: the server",
}
#: The extras of a service, of one with its state in PostgreSQL, and of the image, which has readers, too.
SETS = {"service": ("cli", "serve"), "with PostgreSQL": ("cli", "postgres", "serve"),
        "image": ("cli", "client", "postgres", "serve")}  # fmt: skip
#: Most megabytes of a service beyond the required packages.
MOST = 30.0


def needed(extras: Collection[str] = (), name: str = "online_rank") -> set[str]:
    """The packages that a package needs, with extras, and those that these need."""
    seen: set[tuple[str, frozenset[str]]] = set()
    _follow(name, frozenset(extras), seen)
    return {each for each, _ in seen}


def _follow(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> None:
    for each in _required(name, extras):
        found = re.sub(r"[-_.]+", "-", each.name).lower(), frozenset(each.extras)
        if found not in seen:
            seen.add(found)
            _follow(*found, seen)


def _required(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What a package asks for on this system."""
    for each in map(Requirement, metadata.requires(name) or []):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield each


def megabytes_of(name: str) -> float:
    """The size of an installed package."""
    paths = [file.locate() for file in metadata.files(name) or [] if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6  # type: ignore[union-attr]


def beyond(extras: Collection[str]) -> dict[str, float]:
    """The size of each package that extras bring beyond the required ones."""
    return {name: megabytes_of(name) for name in sorted(needed(extras) - needed())}


def main() -> None:
    parser(__doc__).parse_args()
    columns = {"required": {name: megabytes_of(name) for name in sorted(needed())}}
    columns |= {name: beyond(extras) for name, extras in SETS.items()}
    names = sorted({name for column in columns.values() for name in column}, key=lambda each: (each not in needed(), each))
    rows: list[list[str]] = [
        [name, USES[name], *(f"{column[name]:.1f}" if name in column else "" for column in columns.values())] for name in names
    ]
    rows.append(["**together**", "", *(f"**{sum(column.values()):.1f}**" for column in columns.values())])
    told = "MB of each package: those that are required, and what a service brings beyond them"
    sets = ", ".join(f"{name} `[{','.join(extras)}]`" for name, extras in SETS.items())
    text = f"# Packages\n\n{told}: {sets}.\n\n"
    text += table(["package", "for", *columns], rows)
    save("packages", text)


if __name__ == "__main__":
    main()
