"""For any bytes: the same answer as the slow reader, or the same error; and numbers to the last bit."""

import gzip
import io
import re
import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from online_rank import read
from online_rank.query import SparseRows
from online_rank.stream import ReadError, letor, source
from online_rank.stream.source import _OTHERS
from tests.fuzz.targets import letor_blocks
from tests.reference import letor as reference

# Long numbers overflow the mantissa, harmlessly; only without compilation (NUMBA_DISABLE_JIT=1) does that raise a warning.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

fuzzed = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])

SEED = b"""\xef\xbb\xbf2 qid:10 1:0.5 3:1 # text = a inc = 1
0 qid:10 2:1e-3 #text=b
# comment
1.0 qid:11 1:-7.25E+2\t2:NULL  \r
+3 qid:11 3:1 2:12345678901234567890 1:.5
1 qid:12
2 qid:13 1:0.12345678901234567 2:1e22 3:123456789e-30"""


PLAIN = (SEED.removeprefix(b"\xef\xbb\xbf") + b"\n") * 50


def is_utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def ours(data):
    """The queries of `data`, or the line of the error, or which error it is of those that are of no line.

    Ids of documents are in UTF-8, other comments may not be.
    """
    try:
        queries = read(io.BytesIO(data), with_ids=is_utf8(data), missing="zero", repeated_qid="new")
        return [(getattr(x, "X", x), y, *more[:1]) for x, y, *more in queries]
    except ReadError as error:
        if "judges document" in str(error):
            return "judges document"
        found = re.search(r"line (\d+)|no qid:... and no file", str(error))
        return 1 if found is None else int(found[1]) if found[1] else found[0]


def is_judged_twice(data):
    """Whether a document, by the id in its comment, has two grades in a query."""
    grades = {}
    for line in re.split(b"\r\n|\r|\n", data):
        try:
            row = reference.parse_line(line.removeprefix(b"\xef\xbb\xbf").decode("latin-1"))
        except reference.BadLine:
            continue
        if row is not None and (docid := reference.docid_of(row[3])) and grades.setdefault((row[1], docid), row[0]) != row[0]:
            return True
    return False


def assert_same(data):
    try:
        expected = reference.parse(data)
    except reference.BadLine as error:
        expected = error.args[1]
    found = ours(data)
    if found == "judges document":
        assert is_judged_twice(data)
        return
    if found == "no qid:... and no file":
        assert not isinstance(expected, list)
        return
    if not is_utf8(data) and not (isinstance(found, list) and isinstance(expected, list)):
        # Ids of queries are read before numbers: of two wrong lines, the error may name the other one.
        assert isinstance(found, int)
        return
    if not isinstance(expected, list):
        assert found == expected
        return
    assert isinstance(found, list), (found, expected)
    assert len(found) == len(expected)
    for (X, y, *qids), (X_, y_, qid_, _) in zip(found, expected, strict=True):
        X = X.toarray() if isinstance(X, SparseRows) else X
        assert X.tobytes() == np.array(X_, float).reshape(len(X_), -1).tobytes()
        assert y.tolist() == y_
        assert qids in ([], [qid_.encode("latin-1").decode()] if is_utf8(data) else [])


def mutate(data, edits):
    data = bytearray(data)
    for kind, place, byte in edits:
        place %= len(data) + 1
        if kind == 0:
            data[place:place] = bytes([byte])
        elif kind == 1:
            del data[place : place + 1]
        elif kind == 2:
            data[place : place + 1] = bytes([byte])
        elif kind == 3:
            del data[place : place + byte]
        else:
            data[place:place] = data[place : place + byte]
    return bytes(data)


likely = st.sampled_from(b" \t\r\n#:.+-0123456789eEqidnaNULf\x00\xff") | st.integers(0, 255)
edits = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 400), likely), max_size=6)


@pytest.mark.slow
@fuzzed
@given(edits=edits, piece=st.sampled_from([1, 13, 1 << 20]))
@example(edits=[], piece=1)
@example(edits=[(2, 0, 50)], piece=13)
@example(edits=[(0, 0, 32), (4, 0, 58)], piece=1)
def test_mutations(monkeypatch, edits, piece):
    monkeypatch.setattr(source, "_CHUNK", piece)
    assert_same(mutate(SEED, edits))


@pytest.mark.slow
@fuzzed
@example(data=b"\r0")
@given(data=st.binary(max_size=60) | st.lists(likely, max_size=60).map(bytes))
def test_rubbish(data):
    # What is packed is unpacked, or refused: tests/stream/test_letor.py.
    if not data.lstrip().startswith((b"\x1f\x8b", b"{", b"\xff\xff\xff\xff", *_OTHERS)):
        assert_same(data)


token = st.text("0123456789.+-eE", max_size=12) | st.floats().map(repr) | st.sampled_from(["NULL", "nan", "inf", ""])
feature = st.tuples(st.integers(0, 6).map(str) | st.text("01", max_size=3), token).map(":".join)
line = st.tuples(
    st.sampled_from(["0", "1", "2.0", "+3", "-1", "1e1", "x"]),
    st.integers(1, 3).map("qid:{}".format),
    st.lists(feature, max_size=5).map(" ".join),
    st.sampled_from(["", "#", " # text = x", "\r", " "]),
)


@pytest.mark.slow
@fuzzed
@example(lines=["0 qid:1  # text = x", "1 qid:1  # text = x"])
@given(lines=st.lists(line.map(lambda parts: " ".join(parts[:3]) + parts[3]), max_size=8))
def test_nearly_right_lines(lines):
    assert_same("\n".join(lines).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"1 1:1e999",  # neither qid nor a number in range
        b"1 1:1e999\n1 qid:1 1:1",
        b"1 1:1e99\n1 qid:1 1:1",
        b"1 qid:1 9:1 2:1e999\n1 qid:1 1:1e99",
        b"1e-99 qid:1 9:1\n0e99 qid:1 1:1e-99 3:1e99 2:1e99\n1 qid:1 3:1e99 2:1 1:1",
    ],
)
def test_numbers_left_to_the_caller(data):
    assert_same(data)


@pytest.mark.slow
@fuzzed
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_gzip(place, byte, cut):
    """Damage is noticed, or harmless (a bit of the header that nobody reads)."""
    content = bytearray(gzip.compress(PLAIN))
    place %= len(content)
    content[place] = byte
    damaged = bytes(content[: place + 1] if cut else content)
    if not damaged.startswith(b"\x1f\x8b"):
        return
    intact = ours(PLAIN)
    found = ours(damaged)
    try:
        harmless = gzip.decompress(damaged) == PLAIN
    except (OSError, EOFError, zlib.error, struct.error):
        harmless = False
    assert isinstance(found, list) == harmless
    if harmless:
        assert len(found) == len(intact)


# Numbers


def values(tokens):
    """What the reader makes of numbers, one a line."""
    return read(io.StringIO("".join(f"0 qid:1 1:{token}\n" for token in tokens)), n_features=1).all().X[:, 0]


def assert_nearest(tokens):
    expected = np.array([float(token) for token in tokens])
    found = values(tokens)
    wrong = found.view(np.int64) != expected.view(np.int64)
    assert not wrong.any(), [(t, a, b) for t, a, b, w in zip(tokens, found, expected, wrong, strict=True) if w][:5]


HARD = [
    "9007199254740993",  # 2**53 + 1: half way, to even
    "9007199254740992.5",
    "9007199254740993.0000000000000000000000001",
    "1.00000000000000011102230246251565",  # 1 + half an ulp, and a little less
    "1.0000000000000001110223024625156",
    "9999999999999999999",
    "99999999999999999999",
    "18446744073709551616",
    "9223372036854775807e22",
    "1e22",
    "1e23",
    "8.5e22",
    "5e-324",
    "2.4703282292062327e-324",
    "2.4703282292062328e-324",
    "2.2250738585072011e-308",
    "1.7976931348623157e308",
    "1.7976931348623158079e308",
    "0e999999999999",
    "-0",
    "-0.0e5",
    "0.000000000000000000000000000000000001",
    "000000000000000000000000000001.5",
    "0.1000000000000000000000000000000000",
    "123456789012345678901234567890e-20",
    "6929495644600919.5",
    "3.7455744005952583e15",
]


def test_hard_numbers():
    assert_nearest(HARD)
    assert_nearest(["-" + token.removeprefix("-") for token in HARD])


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_numbers_of_every_length(seed):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**63, 500).view(np.float64)
    some = bits[np.isfinite(bits)]
    near_one = rng.random(500) * 10.0 ** rng.integers(-8, 8, 500)
    tokens = [repr(v) for v in [*some.tolist(), *near_one.tolist()]]
    tokens += [f"{v:.{p}g}" for v, p in zip(near_one, rng.integers(1, 25, 500), strict=True)]
    for digits, exponent in zip(rng.integers(1, 22, 1500), rng.integers(-45, 25, 1500), strict=True):
        mantissa = "".join(map(str, rng.integers(0, 10, digits)))
        point = rng.integers(0, digits + 1)
        tokens.append(f"{mantissa[:point]}.{mantissa[point:]}e{exponent}")
    # Half way between two neighbours, exactly: 54 bits.
    for odd, power in zip(rng.integers(2**52, 2**53, 200) * 2 + 1, rng.integers(-4, 5, 200), strict=True):
        tokens.append(str(int(odd) << int(power)) if power >= 0 else str(int(odd) / 2**-power) if odd < 2**53 else f"{odd}")
    assert_nearest(tokens)


@pytest.mark.parametrize("tokens", [["1" * 400], ["." + "0" * 400 + "1"], ["1" + "0" * 300 + ".5"]])
def test_long_numbers(tokens):
    if float(tokens[0]) == float("inf"):
        with pytest.raises(ReadError, match="not finite"):
            values(tokens)
    else:
        assert_nearest(tokens)


# Blocks


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=8, max_size=120))
def test_blocks_of_any_sizes_are_read_as_line_by_line(data):
    letor_blocks(data)


@pytest.mark.parametrize("given", [None, 136])
def test_long_lines_and_many_shorter_ones_after_them(monkeypatch, given):
    """The arrays that the kernel fills were kept from the long lines, and were too short for the tokens of many lines."""
    monkeypatch.setattr(source, "_CHUNK", 1 << 15)
    monkeypatch.setattr(letor, "LOOK_AHEAD", 1 << 18)
    long = "".join(f"{i % 3} qid:{i // 9}" + "".join(f" {j}:{(i + j) / 8}" for j in range(1, 137)) + "\n" for i in range(300))
    short = "".join(f"{i % 3} qid:s{i // 9} 1:{i}\n" for i in range(20_000))
    found = read(io.StringIO(long + short), n_features=given).all()
    assert found.X.shape == (20_300, 136)
    assert found.X[:300].tolist() == [[(i + j) / 8 for j in range(1, 137)] for i in range(300)]
    assert found.X[300:, 0].tolist() == [*map(float, range(20_000))]
    assert not found.X[300:, 1:].any()
    assert found.y.tolist() == [i % 3 for i in [*range(300), *range(20_000)]]


@pytest.mark.slow
def test_100_megabytes_as_of_mslr_are_read_as_line_by_line(tmp_path):
    """136 features on each line, first long numbers, then short ones: blocks of few lines, then of many."""
    rng, size, path, queries = np.random.default_rng(0), 0, tmp_path / "mslr.txt", 0
    with open(path, "w") as file:
        while size < 100 << 20:
            n = int(rng.integers(1, 200))
            values = rng.normal(size=(n, 136)) * 10.0 ** rng.integers(-3, 6, 136)
            values = np.where(rng.random((n, 136)) < size / (100 << 20), np.sign(values).round(), values.round(6))
            grades, queries = rng.integers(0, 5, n), queries + 1
            for grade, row in zip(grades.tolist(), values.tolist(), strict=True):
                size += file.write(f"{grade} qid:{queries}" + "".join(f" {i}:{v:g}" for i, v in enumerate(row, 1)) + "\n")
    lines, n_read = open(path), 0  # noqa: SIM115
    with lines:
        for X, y, qid, _ in read(path, with_ids=True):
            for row, grade in zip(X.tolist(), y.tolist(), strict=True):
                first, query, *features = next(lines).split()
                assert (grade, qid) == (int(first), query.removeprefix("qid:"))
                assert row == [float(feature.partition(":")[2]) for feature in features]
            n_read += 1
        assert next(lines, None) is None
    assert n_read == queries
