"""Names of classes and functions of the user's own."""

import os
import subprocess
import sys

import pytest

from online_rank import extensions, register


def test_a_name_needs_a_dot_and_is_given_once():
    for name in ("focal", "a b.c", ".x", "x.", "river.x", "a." + "b" * 100):
        with pytest.raises(ValueError, match="with a dot in it"):
            register(name)
    with pytest.raises(TypeError, match="must be a string"):
        register(len)
    with pytest.raises(TypeError, match="a class or a function"):
        register("tests.number")(3)

    def one():
        pass

    def other():
        pass

    assert register("tests.one")(one) is one
    assert (extensions.registered("tests.one"), extensions.name_of(one)) == (one, "tests.one")
    with pytest.raises(ValueError, match=r"is the name of .*one already"):
        register("tests.one")(other)
    with pytest.raises(ValueError, match=r"has the name 'tests.one' already"):
        register("tests.two")(one)


def test_a_definition_that_is_run_again_takes_the_name():
    def define():
        @register("tests.again")
        def again():
            pass

        return again

    first, second = define(), define()
    assert extensions.registered("tests.again") is second
    assert extensions.name_of(first) is None


def test_the_command_line_imports_modules(tmp_path):
    (tmp_path / "mine.py").write_text("print('imported')\n")
    command = [sys.executable, "-m", "online_rank", "--import", "mine", "warm-up", "--help"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.startswith("imported")
    command[4] = "no_such_module"
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (failed.returncode, "no_such_module" in failed.stderr) == (2, True)
