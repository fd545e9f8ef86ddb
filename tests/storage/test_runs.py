"""Large arrays of long runs of equal numbers, in files."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_rank import HashedFeatures, MaxAbsStreamScaler, PerceptronRanker
from online_rank.storage.archive import read_archive, write_archive
from online_rank.storage.files import ModelFileError, from_bytes, to_bytes
from online_rank.storage.runs import MOST_BYTES, as_runs

N = 1 << 16


def saved(**numbers):
    array = np.zeros(N)
    for place, number in numbers.items():
        array[int(place[1:])] = number
    return to_bytes(array)


def with_members(content, change):
    """A file with another header and other arrays."""
    members = [(name, bytes(data)) for name, data in read_archive(content)]
    header, arrays = json.loads(members[0][1]), [np.load(io.BytesIO(data)) for _, data in members[1:]]
    header["object"], arrays = change(header["object"], arrays)
    written = [(members[0][0], json.dumps(header).encode())]
    for i, array in enumerate(arrays):
        np.save(file := io.BytesIO(), array)
        written.append((f"{i}.npy", file.getvalue()))
    return write_archive(written)


@pytest.mark.slow
@given(
    dtype=st.sampled_from(["f8", "f4", "f2", "i8", "i4", "u1", "?"]),
    places=st.lists(st.integers(0, 4 * N - 1), max_size=20),
    columns=st.sampled_from([1, 4]),
)
def test_arrays_come_back_bit_for_bit(dtype, places, columns):
    array = np.zeros(4 * N, dtype)
    array[places] = 1
    array = array.reshape(-1, columns)
    content = to_bytes(array)
    assert len(content) < 3000
    again = from_bytes(content)
    assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_signs_of_zeros_and_nan_are_kept():
    again = from_bytes(saved(p3=-0.0, p5=np.nan, p7=5e-324))
    assert np.signbit(again[3])
    assert np.isnan(again[5])
    assert again[7] == 5e-324
    assert np.count_nonzero(again.view("u8")) == 3


def test_runs_are_lengths_and_numbers():
    array = np.zeros((2, N), dtype=np.uint8)
    array[0, 10:300] = 16
    array[1, :500] = 16
    lengths, numbers = as_runs(array)
    assert lengths.dtype == np.uint16
    assert lengths.tolist() == [10, 290, N - 300, 500, N - 500]
    assert numbers.tolist() == [0, 16, 0, 16, 0]


def test_an_array_of_short_runs_is_kept_whole():
    array = np.zeros(N)
    array[::2] = 1.0
    assert as_runs(array) is None
    array[::2] = 0.0
    array[::100] = 1.0
    # Runs of 1 and 99, of 9 bytes each, for every 800 bytes.
    assert sum(part.nbytes for part in as_runs(array)) == pytest.approx(18 / 800 * array.nbytes, rel=0.01)


def test_numbers_other_than_zero_take_memory_as_the_file_does():
    assert as_runs(np.ones(N)) is None
    assert as_runs(np.zeros(N)) is not None


@pytest.mark.slow
def test_a_model_of_hashed_words_has_a_small_file_and_continues_from_it():
    model, rng = HashedFeatures(text=("title",)) | MaxAbsStreamScaler() | PerceptronRanker(), np.random.default_rng(0)
    words = [f"word{i}" for i in range(300)]

    def query():
        return [{"title": " ".join(rng.choice(words, 4)), "price": rng.normal()} for _ in range(10)]

    for _ in range(30):
        model.learn_one(query(), rng.integers(0, 3, 10))
    content = to_bytes(model)
    # 2^22 columns of four numbers are 134 MB.
    assert len(content) < 200_000
    again = from_bytes(content)
    more = query()
    for each in (model, again):
        each.learn_one(more, [1, 0] * 5)
    assert to_bytes(again) == to_bytes(model)


def replaced(**given):
    """Another number, length or shape in the file of an array."""

    def change(tree, arrays):
        first, shape = tree["runs"]
        return {"runs": [given.get("first", first), given.get("shape", shape)]}, [
            np.array(given.get("lengths", arrays[0]), given.get("dtype", "u4")), np.array(given.get("numbers", arrays[1]))
        ]  # fmt: skip

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [N - 1]}, "impossible lengths"),
        ({"lengths": [3, 1, 1, 1, N - 5]}, "impossible lengths"),
        ({"lengths": [3, 1, 1, 1, N - 6], "dtype": "i8"}, "impossible lengths"),
        ({"lengths": [3, 1, 1, 1, N - 6], "dtype": "u8"}, "impossible lengths"),
        ({"lengths": [3, 1, 1, 1, N - 6], "dtype": "f8"}, "impossible lengths"),
        ({"lengths": [N - 3, 1, 1, 1]}, "impossible lengths"),
        ({"lengths": [[N - 1], [1]], "numbers": [[1.0], [2.0]]}, "impossible lengths"),
        ({"lengths": [N], "numbers": [1.0]}, "much more memory than the file has bytes"),
        ({"shape": [N, -1]}, "impossible shape"),
        ({"shape": [True]}, "impossible shape"),
        ({"shape": []}, "impossible shape"),
        ({"shape": N}, "impossible shape"),
        ({"shape": [MOST_BYTES // 8 + 1]}, "more memory than models of hashed features"),
        ({"shape": [1 << 40, 1 << 40]}, "more memory than models of hashed features"),
        ({"first": 1}, "refers to arrays that the file does not have"),
        ({"first": "0"}, "is not understood"),
    ],
)
def test_hostile_files_are_refused(change, message):
    with pytest.raises(ModelFileError, match=message):
        from_bytes(with_members(saved(p3=1.0, p5=2.0), replaced(**change)))


def test_arrays_of_one_file_take_a_bounded_memory():
    n = MOST_BYTES // 8 // 2 + 1

    def twice(_, arrays):
        parts = [np.array([n], dtype=np.uint32), np.zeros(1)]
        return [{"runs": [0, [n]]}, {"runs": [2, [n]]}], [*parts, *parts]

    with pytest.raises(ModelFileError, match="more memory than models of hashed features"):
        from_bytes(with_members(saved(p3=1.0), twice))
