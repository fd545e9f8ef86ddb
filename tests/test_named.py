"""Paths, scripts, commands, options and routes that the documentation names exist."""

import importlib.util
import re
from pathlib import Path

import click
import pytest
import typer

from online_rank import PerceptronRanker
from online_rank.cli.app import app
from online_rank.serving import RankingApp, RankingService
from online_rank.serving.paths import POSTED

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
_GROUP = typer.main.get_command(app)
_CONTEXT = click.Context(_GROUP)


def options_of(command):
    """The options of a command; of a group, the options of its commands."""
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*map(options_of, getattr(command, "commands", {}).values()))


#: The options of each command; `COMMON` has the options of all.
COMMANDS = {name: options_of(_GROUP.get_command(_CONTEXT, name)) for name in _GROUP.list_commands(_CONTEXT)}
COMMON = {"--help", *(option for parameter in _GROUP.params for option in parameter.opts)}
#: Options of other programs, and what is a place in a name.
FOREIGN = {
    "--data-binary", "--retry", "--retry-connrefused", "--retry-delay",  # curl
    "--dist", "--hypothesis-profile", "--no-compile", "--no-deps", "--wheel-dir",  # pytest and pip
    "--headless", "--no-sandbox", "--force-dark-mode", "--screenshot", "--virtual-time-budget", "--window-size",  # chromium
    "--csoaa_ldf", "--wap_ldf",  # Vowpal Wabbit
    "--config",  # Kafka
}  # fmt: skip
_PLACEHOLDER = re.compile(r"NAME|VERSION|KEY")
_VOLUME = "/state"


def text_of(page):
    """A page with commands that continue in the next line as one line."""
    return re.sub(r"\\\n\s*", " ", page.read_text())


def scripts_of(text):
    """The sources of the benchmarks and campaigns that a page names, and of those that read the options of all benchmarks."""
    names = {name.rstrip(".") for name in re.findall(r"python -m ((?:benchmarks|tests)\.[\w.]+)", text)}
    names |= {name[:-3].replace("/", ".") for name in re.findall(r"((?:benchmarks|tests)/\w+\.py)", text)}
    files = [ROOT / f"{name.replace('.', '/')}.py" for name in names]
    files += [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tests" / "campaigns").glob("*.py"), *(ROOT / ".ci").glob("*")]
    return "\n".join(file.read_text() for file in {*files} if file.exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page):
    for command, rest in re.findall(r"online-rank ([a-z][a-z-]+)([^\n`|;&)]*)", text_of(page)):
        assert command in COMMANDS, command
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", rest):
            assert option in COMMANDS[command] | COMMON, (command, option)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_exist(page):
    text = text_of(page)
    known = COMMON.union(*COMMANDS.values()) | FOREIGN
    missing = {option for option in re.findall(r"(?<![\w-])--[a-z][\w-]*\w", text) if option not in known}
    if missing:
        sources = scripts_of(text)
        missing = {option for option in missing if f'"{option}"' not in sources}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_and_scripts_exist(page):
    text = text_of(page)
    for path in re.findall(r"`((?:benchmarks|tests|online_rank|examples|docs|\.ci)/[\w./-]+)", text):
        assert _PLACEHOLDER.search(path) or (ROOT / path).exists(), path
    for name in re.findall(r"python -m ((?:benchmarks|tests|online_rank)(?:\.\w+)*)", text):
        assert _PLACEHOLDER.search(name) or importlib.util.find_spec(name), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_routes_exist(page):
    paths = RankingApp(RankingService(PerceptronRanker())).paths
    routes = {*POSTED, *paths._routes}
    for path in re.findall(r"`(?:(?:GET|POST|DELETE|PUT) )?(/[a-z][\w/.-]*)`", text_of(page)):
        assert path in routes or path.startswith("/models/") or path == _VOLUME, path
