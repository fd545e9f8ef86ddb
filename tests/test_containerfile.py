"""The Containerfile: what its steps do, without an image."""

import json
import os
import platform
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def instructions():
    """Names and arguments, in order."""
    lines = [line for line in (ROOT / "Containerfile").read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines()]


def all_of(name):
    return [arguments for each, arguments in instructions() if each == name]


def one(name):
    (arguments,) = all_of(name)
    return arguments


def steps():
    return [step.strip() for step in one("RUN").split("&&")]


def test_the_wheel_is_installed_with_extras_that_exist_and_nothing_is_compiled():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    download, install = steps()[:2]
    assert download.startswith("--mount=type=bind,source=dist,target=/dist")
    (extras,) = re.findall(r"\[([a-z,]+)\]", install)
    assert {*extras.split(",")} <= project["optional-dependencies"].keys()
    assert {"cli", "serve", "postgres", "client"} == {*extras.split(",")}
    assert all("--only-binary :all:" in step for step in (download, install))
    assert not re.search(r"apt|gcc|build-essential", (ROOT / "Containerfile").read_text())
    assert all_of("COPY") == []


@pytest.mark.slow
def test_pip_takes_the_wheel_for_this_processor_of_all_in_the_folder(tmp_path):
    folder, chosen = tmp_path / "dist", tmp_path / "wheel"
    folder.mkdir()
    (folder / "online_rank-0.1.0.tar.gz").write_bytes(b"")
    machine = "x86_64" if platform.machine() == "x86_64" else "aarch64"
    for tag in ("any", "manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64"):
        with zipfile.ZipFile(folder / f"online_rank-0.1.0-py3-none-{tag}.whl", "w") as wheel:
            about = "online_rank-0.1.0.dist-info"
            wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: online_rank\nVersion: 0.1.0\n")
            wheel.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-{tag}\n")
            wheel.writestr(f"{about}/RECORD", "")
    words = shlex.split(steps()[0].partition("/dist ")[2].strip().removeprefix("\\ "))
    words = [word.replace("/dist", str(folder)).replace("/wheel", str(chosen)) for word in words]
    subprocess.run([sys.executable, "-m", *words], check=True)
    assert [path.name for path in chosen.iterdir()] == [f"online_rank-0.1.0-py3-none-manylinux_2_28_{machine}.whl"]


@pytest.mark.slow
def test_the_other_steps_are_commands_that_exist():
    commands = [shlex.split(step) for step in steps()[2:]]
    assert [command[0] for command in commands] == ["mkdir", "online-rank", "useradd", "chown", "rm"]
    shown = subprocess.run([sys.executable, "-m", "online_rank", *commands[1][1:], "--help"], check=True, capture_output=True)
    assert b"Compile the kernels" in shown.stdout
    cache = dict(pair.split("=") for pair in one("ENV").split())["ONLINE_RANK_CACHE_DIR"]
    made = commands[0][2:]
    assert {cache, one("VOLUME")} == {*made}
    assert commands[3][1:] == [one("USER"), one("VOLUME")]


def test_the_release_builds_the_image_of_its_wheels_and_tries_it():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert {"pure", "compiled"} <= {*jobs["image"]["needs"]}
    assert "image" in jobs["attest"]["needs"]
    commands = [step["run"] for step in jobs["image"]["steps"] if "run" in step]
    assert commands == ["docker build -f Containerfile -t online-rank .", ".ci/image online-rank dist"]
    assert os.access(ROOT / ".ci" / "image", os.X_OK)
    assert subprocess.run(["bash", "-n", ROOT / ".ci" / "image"], check=False).returncode == 0


def test_the_compose_file_of_the_guide_has_commands_that_exist_and_names_what_it_has():
    yaml, main = pytest.importorskip("yaml"), pytest.importorskip("typer.main")
    from online_rank.cli.app import app

    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "machines.md").read_text(), re.DOTALL)
    compose = yaml.safe_load(text)
    services, given = compose["services"], {}
    for name, service in services.items():
        if service["image"] == "online-rank":
            verb, *options = shlex.split(service["command"].replace("${DB_PASSWORD:?}", "secret"))
            command = main.get_command(app).commands[verb]
            given[name] = command.make_context(verb, options).params
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= compose["volumes"].keys()
        assert {config["source"] for config in service.get("configs", ())} <= compose["configs"].keys()
        assert {*service.get("depends_on", ())} <= services.keys()
    assert {name: each["reads_from"] for name, each in given.items()} == {
        "learner": None,
        "reader-1": "http://learner:8000",
        "reader-2": "http://learner:8000",
    }
    assert given["learner"]["checkpoint"] == "postgresql://ranker:secret@db/ranker"
    assert all(each["port"] == int(one("EXPOSE")) for each in given.values())
    assert all(each["cache"].startswith(one("VOLUME")) for name, each in given.items() if name != "learner")
    scraped = yaml.safe_load(compose["configs"]["prometheus"]["content"])["scrape_configs"][0]["dns_sd_configs"][0]
    assert (scraped["names"], scraped["port"]) == ([*given], int(one("EXPOSE")))


def _listens(port):
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")
def test_it_serves_is_healthy_and_stops_on_a_signal(tmp_path):
    entry, options = json.loads(one("ENTRYPOINT")), json.loads(one("CMD"))
    assert entry == ["online-rank"]
    (port_inside,) = all_of("EXPOSE")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = [option.replace(one("VOLUME"), str(tmp_path)) for option in options]
    check = json.loads(one("HEALTHCHECK").partition("CMD ")[2])
    assert check[0] == "python"
    healthy = [sys.executable, *(part.replace(port_inside, port) for part in check[1:])]
    with subprocess.Popen(
        [sys.executable, "-m", "online_rank", *options, "--port", port], stderr=subprocess.DEVNULL
    ) as running:
        try:
            until = time.monotonic() + 120.0
            while not _listens(int(port)) and time.monotonic() < until:
                assert running.poll() is None
                time.sleep(0.2)
            subprocess.run(healthy, check=True)
            running.send_signal(getattr(signal, one("STOPSIGNAL")))
            assert running.wait(60) == 0
        finally:
            running.kill()
    assert subprocess.run(healthy, check=False, capture_output=True).returncode == 1
    assert (tmp_path / "ranker" / "state.db").exists()
