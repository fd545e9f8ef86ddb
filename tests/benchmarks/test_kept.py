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


def test_every_contestant_on_images_learns_a_query():
    pytest.importorskip("torch")
    from benchmarks import images

    digits = images.digits()
    train = digits.part(range(10))
    for name, method in images.METHODS.items():
        accuracy, ndcg = images.quality(images.taught(method.make(digits.side, method.rates[0], 0), train, 1, 0), train)
        assert 0.0 <= accuracy <= 1.0, name
        assert 0.0 < ndcg <= 1.0, name
