"""Long benchmarks continue where they were interrupted."""

import json

import pytest

from benchmarks._kept import Kept


def test_what_was_measured_is_not_measured_again(tmp_path):
    path, calls = tmp_path / "kept.json", []

    def measure(name):
        calls.append(name)
        if name == "third" and len(calls) < 4:
            raise KeyboardInterrupt
        return [name, 1.5]

    def run():
        kept = Kept(path)
        return [kept.part(name, lambda name=name: measure(name)) for name in ("first", "second", "third")], kept

    with pytest.raises(KeyboardInterrupt):
        run()
    assert sorted(json.loads(path.read_text())) == ["first", "second"]
    parts, kept = run()
    assert parts == [["first", 1.5], ["second", 1.5], ["third", 1.5]]
    assert calls == ["first", "second", "third", "third"]
    assert kept.code.startswith("Measured on commit")


def test_without_a_file_all_is_measured():
    assert Kept(None).part("first", lambda: 1) == Kept(None).part("first", lambda: 1) == 1
