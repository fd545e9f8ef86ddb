"""Rows of numbers in JSON are the doubles that Python reads, or are left to the caller."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_rank._kernels.json_rows import read_rows


def read(text, m, d):
    """The numbers that the kernel reads; None for what it leaves."""
    X = np.full((m, d), np.nan)
    return X if read_rows(np.array([*text.encode()], np.uint8), X) else None


def bits(rows):
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1).view(np.int64).tolist()


SPACES = st.sampled_from(["", " ", "\n", "\t \r\n"])
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.4f}"),
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-9, 9).map(str),
    st.tuples(st.integers(-(10**18), 10**18), st.integers(-25, 25)).map(lambda pair: f"{pair[0]}e{pair[1]}"),
    st.sampled_from(["0", "-0", "-0.0", "0.0", "1E5", "1e+5", "5e-324", "0.1", "123456789012345678901234567890", "1.5e300"]),
)


@given(st.data())
def test_rows_are_read_as_python_reads_them_or_left(data):
    m, d = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    rows = [[data.draw(NUMBERS) for _ in range(d)] for _ in range(m)]
    space = data.draw(SPACES)
    comma = f"{space},{space}"
    inside = comma.join(f"[{space}{comma.join(row)}{space}]" for row in rows)
    text = f"[{space}{inside}{space}]"
    found = read(text, m, d)
    assert found is None or bits(found) == bits([[float(json.loads(value)) for value in row] for row in rows])


@pytest.mark.parametrize("value", ["3", "-7", "2.5", "-0.0", "1e5", "0.1234", "-1.7976931348623157e22", "0.30000000000000004"])
def test_usual_numbers_are_not_left(value):
    assert bits(read(f"[[{value},1],[0,{value}]]", 2, 2)) == bits([[float(value), 1.0], [0.0, float(value)]])


@pytest.mark.parametrize(
    "text",
    [
        "[[1,2],[3,4],[5,6]]", "[[1,2]]", "[[1,2],[3]]", "[[1,2],[3,4,5]]", "[[1],[3,4]]", "[]", "[[],[]]", "[1,2]",
        "[[1,2],null]", "[[1,null],[3,4]]", "[[1,true],[3,4]]", '[[1,"2"],[3,4]]', "[[1,[2]],[3,4]]", "[[1,{}],[3,4]]",
        "{}", "7", '""', "[[1,2],[3,1e400]]", "[[1,2],[3,-0]]",
    ],
)  # fmt: skip
def test_what_is_no_array_of_two_rows_of_two_is_left(text):
    assert read(text, 2, 2) is None


@pytest.mark.parametrize(
    "text", ["", "]", "[]]", "[[1,2],[3,4]", "[[1,2],[3,4", "[[1,2],[3,4]]x", "[[1 2],[3 4]]", "[[1,2][3,4]]", "[[+]]"]
)
def test_what_is_no_json_is_left_within_its_bounds(text):
    assert read(text, 2, 2) is None
