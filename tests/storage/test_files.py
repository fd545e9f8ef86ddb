import collections
import datetime as dt
import hashlib
import importlib
import io
import json
import math
import os
import random
import re
import stat
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import compose, feature_extraction, preprocessing, stats, utils

import online_rank
from online_rank import ForEachDocument, PerceptronRanker, QueryNormalizer, StreamQuantileMap, StreamScaler, load, save
from online_rank.base import Ranker
from online_rank.base.schema import StateError
from online_rank.bounds import LossTracker
from online_rank.rankers.gradient import GradientRanker
from online_rank.storage.archive import read_archive, write_archive
from online_rank.storage.files import FORMAT_VERSION, ModelFileError, from_bytes, to_bytes
from online_rank.storage.objects import Budget, restore, split
from online_rank.storage.tree import settings_of


def learned(n=20, **parameters):
    model, rng = PerceptronRanker(**parameters), np.random.default_rng(0)
    for _ in range(n):
        model.learn_one(rng.normal(size=(6, 4)), rng.integers(0, 3, 6))
    return model


def repacked(content, edit=None, arrays=None, version=None, extra=()):
    """A model file with its header or arrays changed and its checksum made good again, as an attacker would."""
    members = {name: bytes(data) for name, data in read_archive(content)}
    header = json.loads(members["header.json"])
    if edit is not None:
        header = edit(header) or header
    if version is not None:
        header["version"] = version
    members["header.json"] = header if isinstance(header, bytes) else json.dumps(header).encode()
    members.update(arrays or {})
    members.update(extra)
    return write_archive(members.items())


def zipped(members, method=zipfile.ZIP_STORED):
    """Members in a zip archive that another tool wrote, with the checksum that it should have."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = b"0" * 64
    return resealed(buffer.getvalue())


def resealed(content):
    body = content[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def npy(array, header=None):
    buffer = io.BytesIO()
    np.save(buffer, array)
    data = buffer.getvalue()
    if header is not None:
        old = data[10:128]
        data = data[:10] + header.encode().ljust(len(old) - 1) + b"\n" + data[128:]
    return data


@pytest.mark.parametrize("parameters", [{}, {"half_life": 0}, {"half_life": 50.0}, {"measure": "ap>=2", "credit": "argmax"}])
def test_a_loaded_model_continues_exactly_as_the_saved_one(tmp_path, parameters):
    model = learned(**parameters)
    save(model, tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    assert type(again) is PerceptronRanker
    assert again._get_params() == model._get_params()
    rng = np.random.default_rng(1)
    for _ in range(10):
        X, y = rng.normal(size=(6, 4)), rng.integers(0, 3, 6)
        assert again.predict_one(X) == model.predict_one(X)
        again.learn_one(X, y)
        model.learn_one(X, y)
    assert again.weights.tobytes() == model.weights.tobytes()
    assert again.served_weights.tobytes() == model.served_weights.tobytes()


def test_named_features_and_ids_of_any_plain_kind_come_back(tmp_path):
    model = PerceptronRanker()
    model.learn_one({"a": {"f": 1.0, 3: 2.0}, "b": {("x", 2): 2.0}}, {"a": 1, "b": 0})
    save(model, tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    assert again.feature_names == ("f", 3, ("x", 2))
    again.learn_one({"a": {"new": 1.0}, "b": {"f": 2.0}}, {"a": 1, "b": 0})
    assert again.n_features == 4


def test_an_untrained_model(tmp_path):
    save(PerceptronRanker(), tmp_path / "m.npz")
    assert load(tmp_path / "m.npz").n_features == 0


def test_equal_models_give_equal_bytes():
    assert to_bytes(learned()) == to_bytes(learned())
    assert to_bytes(from_bytes(to_bytes(learned()))) == to_bytes(learned())
    assert to_bytes({"s": {"b", "a", "c"}}) == to_bytes({"s": {"c", "b", "a"}})


def test_numpy_opens_the_file_without_pickle(tmp_path):
    model = learned()
    save(model, tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert any(np.array_equal(arrays[name], model.weights) for name in arrays.files if name != "header.json")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([np.float32(1.5), np.int8(-3), np.bool_(True), np.float64("nan")]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2) | st.integers() | st.tuples(st.booleans()), inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda items: collections.deque(items, 5))
    ),
    max_leaves=12,
)


@settings(max_examples=40)
@given(values)
def test_plain_values_come_back_with_their_types(value):
    again = from_bytes(to_bytes(value))
    assert repr(again) == repr(value)
    assert to_bytes(again) == to_bytes(value)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.array(3.5),
        np.arange(6).reshape(2, 3)[:, ::2],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([True, False]),
        np.array([math.inf, -0.0, math.nan], dtype=np.float32),
    ],
)
def test_arrays_come_back_writable_with_shape_and_bits(array):
    again = from_bytes(to_bytes([array]))[0]
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert again.tobytes() == array.tobytes()
    assert again.flags.writeable


def test_river_transformers_of_the_documented_list(tmp_path):
    rows = [{"a": 1.0, "p": 2.0}, {"a": 4.0, "p": 1.0, "c": -1.0}]
    steps = [
        preprocessing.StandardScaler(),
        preprocessing.MinMaxScaler(),
        preprocessing.MaxAbsScaler(),
        preprocessing.Normalizer(),
        preprocessing.FeatureHasher(8, seed=1),
        compose.Select("a", "p"),
        compose.Discard("a"),
        compose.Prefixer("p_"),
        compose.Suffixer("_s"),
        compose.Renamer({"a": "z"}),
    ]
    for step in steps:
        for row in rows:
            step.learn_one(row)
        again = from_bytes(to_bytes(step))
        assert again.transform_one(rows[1]) == step.transform_one(rows[1])
        again.learn_one({"new": 1.0, "a": 2.0})
        step.learn_one({"new": 1.0, "a": 2.0})
        assert again.transform_one(rows[1]) == step.transform_one(rows[1])


def grown(model):
    rng = np.random.default_rng(2)
    for _ in range(10):
        model.learn_one([{"a": a, "b": b} for a, b in rng.normal(size=(5, 2))], rng.integers(0, 3, 5))
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: GradientRanker(),
        lambda: GradientRanker("hinge", optimizer="adagrad", half_life=5.0),
        lambda: StreamScaler() | GradientRanker("listnet"),
        lambda: QueryNormalizer("minmax") | QueryNormalizer() | PerceptronRanker(),
        lambda: StreamQuantileMap() | PerceptronRanker(),
        lambda: ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker(),
        lambda: ForEachDocument(compose.Select("a") | preprocessing.MinMaxScaler()) | PerceptronRanker(),
        lambda: LossTracker(PerceptronRanker(), comparators={"u": {"a": 1.0, "b": -1.0}}),
    ],
    ids=["gradient", "adagrad", "gradient_pipeline", "per_query", "map", "lifted", "lifted_pipeline", "tracker"],
)
def test_models_of_every_room_continue_as_if_they_had_not_been_saved(make):
    model = grown(make())
    again = from_bytes(to_bytes(model))
    assert to_bytes(again) == to_bytes(model)
    assert to_bytes(grown(again)) == to_bytes(grown(model))
    np.testing.assert_equal(again.last_round, model.last_round)


def test_a_tracker_keeps_its_certificate():
    tracker = grown(LossTracker(PerceptronRanker("ndcg"), comparators={"u": {"a": 1.0, "b": -1.0}}))
    again = from_bytes(to_bytes(tracker))
    assert repr(again.totals) == repr(tracker.totals)
    assert repr(again.certificate("u")) == repr(tracker.certificate("u"))


def test_a_tracker_and_its_model_must_have_the_same_features():
    content = to_bytes(grown(LossTracker(PerceptronRanker())))
    with pytest.raises(ModelFileError, match="has 2 features, but the LossTracker around it 0"):
        from_bytes(repacked(content, lambda h: h["object"]["state"].update(_n_features=0, _columns=None)))


def test_a_river_pipeline_keeps_the_names_of_its_steps():
    pipeline = compose.Pipeline(("scale", preprocessing.StandardScaler()), ("rank", PerceptronRanker()))
    again = from_bytes(to_bytes(pipeline))
    assert list(again.steps) == ["scale", "rank"]
    assert type(again["rank"]) is PerceptronRanker


@pytest.mark.parametrize(
    ("thing", "named"),
    [
        (preprocessing.GaussianRandomProjector(), "GaussianRandomProjector"),
        (
            preprocessing.StandardScaler() | compose.FuncTransformer(len),
            "func should be a function named by online_rank.register",
        ),
        ([lambda: 1], "function"),
        (np.array([object()]), "dtype object"),
        (stats.Kurtosis(), "Kurtosis"),
        (preprocessing.Binarizer(dtype=np.float32), "dtype should be one of the types"),
        (feature_extraction.BagOfWords(tokenizer=str.split), "tokenizer should be None"),
        (
            feature_extraction.Agg(on="a", by="b", how=utils.TimeRolling(stats.Mean, period=dt.timedelta(1))),
            "how should be a stat",
        ),
    ],
)
def test_what_is_not_saved_is_refused_by_name_and_nothing_is_written(tmp_path, thing, named):
    with pytest.raises(TypeError, match=named):
        save(thing, tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def test_things_that_contain_themselves_or_stand_twice_are_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(TypeError, match="containing itself"):
        to_bytes(loop)
    model = PerceptronRanker()
    with pytest.raises(TypeError, match="also occurs elsewhere"):
        to_bytes([model, model])


def test_every_bit_flip_and_every_truncation_is_noticed():
    content = to_bytes(learned())
    rng = random.Random(0)
    for _ in range(1500):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        with pytest.raises(ModelFileError):
            from_bytes(bytes(damaged))
    for size in range(0, len(content), 7):
        with pytest.raises(ModelFileError):
            from_bytes(content[:size])
    with pytest.raises(ModelFileError):
        from_bytes(content + b"x")


def test_versions(monkeypatch):
    content = to_bytes(learned())
    later = repacked(content, lambda h: h.update(library="99.1.0"), version=FORMAT_VERSION + 1)
    present = re.escape(f"this is online_rank {online_rank.__version__}")
    message = rf"format version {FORMAT_VERSION + 1} was written by online_rank 99\.1\.0; {present}, .* upgrade online_rank"
    with pytest.raises(ModelFileError, match=message):
        from_bytes(later)
    for version in (0, -1, None, "1", True, 1.0):
        with pytest.raises(ModelFileError, match="format version"):
            from_bytes(repacked(content, lambda h, v=version: h.update(version=v)))
    # A file of today, read by the library of a later format.
    monkeypatch.setattr("online_rank.storage.files.FORMAT_VERSION", FORMAT_VERSION + 1)
    assert type(from_bytes(content)) is PerceptronRanker


def test_an_error_names_the_version_that_wrote_the_file():
    def other(header):
        header["library"] = "0.0.9"
        header["object"]["state"].pop("_weights")

    with pytest.raises(
        ModelFileError, match=rf"has no _weights.* \(online_rank 0\.0\.9 wrote it; this is {online_rank.__version__}\)"
    ):
        from_bytes(repacked(to_bytes(learned()), other))


def test_every_missing_key_of_the_state_is_an_error():
    """A model without weights must not load as one with weights of zero; a parameter that a file lacks takes its default."""
    part, content = "state", to_bytes(learned())
    keys = json.loads(bytes(read_archive(content)[0][1]))["object"][part]
    assert len(keys) > 5
    for key in keys:
        with pytest.raises(ModelFileError, match=f"has no .*{key}|nothing refers to"):
            from_bytes(repacked(content, lambda h, key=key: h["object"][part].pop(key) and None))


def _set(*path, to):
    def edit(header):
        node = header
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = to

    return edit


HOSTILE = {
    "os.system": (_set("object", "class", to="os.system"), "does not restore"),
    "a class of ours that is no model": (_set("object", "class", to="Query"), "does not restore"),
    "a private function": (_set("object", "class", to="online_rank.storage.files.load"), "does not restore"),
    "class is a list": (_set("object", "class", to=["PerceptronRanker"]), "does not restore"),
    "no state": (_set("object", "state", to=None), "no state"),
    "unknown attribute": (_set("object", "state", "_evil", to=1), "has no '_evil'"),
    "a method replaced": (_set("object", "state", "predict_one", to=1), "has no 'predict_one'"),
    "a property replaced": (_set("object", "state", "weights", to=1), "has no 'weights'"),
    "a magic name": (_set("object", "state", "__class__", to=1), "has no '__class__'"),
    "kernel configuration": (_set("object", "state", "_config", to=[9, 9]), "has no '_config'"),
    "unknown parameter": (_set("object", "parameters", "evil", to=1), "no parameter 'evil'"),
    "bad parameter": (_set("object", "parameters", "measure", to="ndcg@0"), "does not accept its parameters"),
    "parameter of another type": (_set("object", "parameters", "half_life", to=[1]), "does not accept its parameters"),
    "more features than weights": (_set("object", "state", "_n_features", to=5), r"_weights should be an array float64 \(5,\)"),
    "10^12 features": (_set("object", "state", "_n_features", to=10**12), r"_weights should be an array float64 \(10{12},\)"),
    "features < 0": (_set("object", "state", "_n_features", to=-1), "integer from 0"),
    "names too few": (_set("object", "state", "_columns", to={"columns": ["a"]}), "one name for each"),
    "names twice": (_set("object", "state", "_columns", to={"columns": ["a", "a", "b", "c"]}), "two that are equal"),
    "an array that is not there": (_set("object", "state", "_weights", "array", to=99), "not understood"),
    "an array used twice": (_set("object", "state", "_weights", "array", to=0), "not understood|refers to"),
    "not an array": (_set("object", "state", "_weights", to=[1.0] * 4), "should be an array"),
    "text for a number": (_set("object", "state", "_n_features", to="4"), "integer from 0"),
    "unknown tag": (_set("object", to={"pickle": "gASV"}), "not understood"),
    "empty tag": (_set("object", to={}), "not understood"),
    "unhashable key": (_set("object", to={"dict": [[[1]], [1]]}), "cannot be one"),
    "a key without a value": (_set("object", to={"dict": [[1, 2], [1]]}), "without a value"),
    "half a dict": (_set("object", to={"dict": [[1, 2]]}), "no dict"),
    "a string of no pool": (_set("object", to={"text": 0}), "strings that the file does not have"),
    "a pool of other arrays": (_set("strings", to=True), "pool of strings has arrays of another kind"),
    "a class that is null": (_set("object", "class", to=None), "does not restore"),
    "unhashable member": (_set("object", to={"set": [[1]]}), "unhashable"),
    "bad scalar": (_set("object", to={"scalar": ["O", "00"]}), "not a number"),
    "scalar of no size": (_set("object", to={"scalar": ["<f8", ""]}), "not a number"),
    "huge dtype": (_set("object", to={"scalar": ["<f8" * 10**4, "00"]}), "not a number"),
    "bad float": (_set("object", to={"float": "1e999"}), "not understood"),
    "deque": (_set("object", to={"deque": [1, 2], "maxlen": 1}), "maximum length"),
    "no object": (lambda h: h.pop("object") and None, "not one of online_rank"),
    "another format": (_set("format", to="other"), "not one of online_rank"),
    "a list": (lambda h: [1], "not one of online_rank"),
    "no JSON": (lambda h: b"{" * 10, "not valid JSON"),
    "not UTF-8": (lambda h: b"\xff\xfe{}" * 3, "not valid JSON|not one of"),
    "Infinity": (lambda h: b'{"format": Infinity}', "not a JSON number"),
    "a number of 10^5 digits": (lambda h: b'{"format": ' + b"9" * 10**5 + b"}", "not valid JSON"),
    "deep": (lambda h: b"[" * 10**5 + b"]" * 10**5, "too deeply"),
    "rather deep": (_set("object", to=json.loads("[" * 200 + "]" * 200)), "nested deeper than 64"),
    "named tuple": (_set("object", to={"class": "Round", "items": [1]}), "other fields"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers(name):
    edit, message = HOSTILE[name]
    with pytest.raises(ModelFileError, match=message):
        from_bytes(repacked(to_bytes(learned()), edit))


def test_positions_out_of_bounds_are_refused():
    model = grown(StreamQuantileMap() | PerceptronRanker())["StreamQuantileMap"]
    content, sizes = to_bytes(model), np.array([5, 10**6])
    number = json.loads(bytes(read_archive(content)[0][1]))["object"]["state"]["_sizes"]["array"]
    with pytest.raises(ModelFileError, match="_sizes has entries outside 0 to 224"):
        from_bytes(repacked(content, arrays={f"{number}.npy": npy(sizes)}))


def test_integers_that_no_kernel_takes():
    content = to_bytes(StreamScaler())
    with pytest.raises(ModelFileError, match="integer from 0"):
        from_bytes(repacked(content, _set("object", "state", "_count", to=10**30)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy(np.zeros(4, dtype=np.float32)), "should be an array float64"),
        (npy(np.zeros((2, 2))), "should be an array float64"),
        (npy(np.zeros(4), "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }"), "not what the file holds"),
        (npy(np.zeros(4), "{'descr': '<f8', 'fortran_order': False, 'shape': (-4,), }"), "impossible shape|valid header"),
        (npy(np.zeros(4), "{'descr': '|O', 'fortran_order': False, 'shape': (4,), }"), "dtype object"),
        (npy(np.zeros(4), "{'descr': '|V8', 'fortran_order': False, 'shape': (4,), }"), "not one of numbers"),
        (npy(np.zeros(4), "{'descr': '<f8', 'fortran_order': True, 'shape': (4,), }"), "not one of numbers"),
        (npy(np.zeros(4), "__import__('os').system('true')"), "no valid header"),
        (npy(np.zeros(4), "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4), }"), "not what the file holds"),
        (b"", "no valid header"),
        (b"\x93NUMPY", "no valid header"),
        (npy(np.zeros(4))[:-8], "not what the file holds"),
    ],
)
def test_hostile_arrays(data, message):
    content = to_bytes(learned())
    header = json.loads(bytes(read_archive(content)[0][1]))
    number = header["object"]["state"]["_weights"]["array"]
    with pytest.raises(ModelFileError, match=message):
        from_bytes(repacked(content, arrays={f"{number}.npy": data}))


def test_foreign_members_and_other_archives(tmp_path):
    content = to_bytes(learned())
    members = {name: bytes(data) for name, data in read_archive(content)}
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        with pytest.raises(ModelFileError, match="not stored as online_rank stores it"):
            from_bytes(zipped(members, method))
    with pytest.raises(ModelFileError, match="not a header and numbered arrays"):
        from_bytes(repacked(content, extra={"../evil": b"x"}.items()))
    with pytest.raises(ModelFileError, match="nothing refers to"):
        from_bytes(repacked(content, extra={"4.npy": npy(np.zeros(3))}.items()))
    with pytest.raises(ModelFileError, match="no header"):
        from_bytes(write_archive([("0.npy", npy(np.zeros(3)))]))
    path = tmp_path / "m.npz"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"m\.npz: larger than 100 bytes"):
        load(path, max_bytes=100)


def test_no_byte_of_the_archive_is_free():
    """Members that overlap, a second directory, bytes between members: each is noticed, also with a good checksum."""
    content = to_bytes(PerceptronRanker())
    start = len(content) - 64 - 22 - sum(46 + len(name) for name, _ in read_archive(content))
    for i in (*range(30 + len("header.json")), *range(start, len(content) - 64)):
        changed = bytearray(content)
        changed[i] ^= 1
        with pytest.raises(ModelFileError):
            from_bytes(resealed(bytes(changed)))
    with pytest.raises(ModelFileError, match="directory"):
        from_bytes(resealed(content[:-64] + b"x" + content[-64:]))


def peak(act):
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(content):
    with pytest.raises(ModelFileError):
        from_bytes(content)


def test_a_small_file_takes_little_memory():
    """A tree that claims 10^6 features, and headers of brackets alone: at most 64 MB and 8 times the file."""
    scaler = to_bytes(StreamQuantileMap())
    million = repacked(scaler, _set("object", "state", "_n_features", to=10**6))
    assert peak(lambda: refused(million)) < 1 << 20
    for part in (b"[],", b"{},", b'"ab",', b'{"tuple":[]},', b"1.5,", b'{"scalar":["<f8",""]},'):
        bomb = repacked(scaler, lambda h, part=part: b'{"format":"online_rank","version":1,"object":[' + part * 10**6 + b"0]}")
        assert peak(lambda bomb=bomb: refused(bomb)) < (64 << 20) + 8 * len(bomb)


def test_a_tracker_does_not_align_more_comparators_than_its_file_has_bytes():
    """500 empty comparators in a file of 20,000 features: aligned they take 80 MB."""
    tracker = LossTracker(PerceptronRanker(), comparators={"a": {}})
    tracker.learn_one({"a": {f"f{i}": 1.0 for i in range(20_000)}, "b": {}}, {"a": 0, "b": 1})
    content = to_bytes(tracker)
    state = json.loads(bytes(read_archive(content)[0][1]))["object"]["state"]

    def edit(header):
        many = {"dict": [[f"u{i}" for i in range(500)], [{"dict": [[], []]}] * 500]}
        header["object"]["parameters"]["comparators"] = many

    arrays = {f"{state[name]['array']}.npy": npy(np.zeros((500, n))) for name, n in (("_sums", 2), ("_path", 3))}
    bomb = repacked(content, edit, arrays=arrays)
    with pytest.raises(ModelFileError, match=r"_shift should be an array float64 \(500, 20000\)"):
        from_bytes(bomb)


def test_what_a_tracker_aligns_is_counted_before_it_is_made():
    comparators = {"u": np.ones(2_000), "v": np.zeros(2_000), "w": np.ones(2_000)}
    tracker = LossTracker(PerceptronRanker(), comparators)
    tracker.learn_one(np.ones((2, 2_000)), [0, 1])
    parameters, state = split(tracker, "tracker")
    needed = 3 * 2_000 * 8
    again = restore(LossTracker, parameters, state, "tracker", Budget(needed))
    assert to_bytes(again) == to_bytes(tracker)
    with pytest.raises(StateError, match=r"tracker\._aligned takes much more memory than the file has bytes"):
        restore(LossTracker, parameters, state, "tracker", Budget(needed - 1))


def test_long_strings_and_many_strings_stand_in_a_pool():
    value = {"x" * 100: ["y" * 50, "short"], "many": [f"n{i}" for i in range(100)], "set": {"z" * 60, "ü" * 40}, "e": [""] * 50}
    again = from_bytes(to_bytes(value))
    assert again == value
    assert to_bytes(again) == to_bytes(value)
    assert from_bytes(to_bytes(["\ud800" * 50])) == ["\ud800" * 50]


@pytest.mark.parametrize("content", [b"", b"PK", b"hello", b"\x80\x04\x95", b"PK\x03\x04" + b"0" * 200])
def test_files_that_are_no_models(tmp_path, content):
    path = tmp_path / "m.npz"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"m\.npz"):
        load(path)


def test_an_npz_of_numpy_is_not_a_model(tmp_path):
    np.savez(tmp_path / "m.npz", a=np.zeros(3))
    with pytest.raises(ModelFileError, match="not written by online_rank"):
        load(tmp_path / "m.npz")


def test_two_settings_that_differ_in_an_array_differ():
    first, second = (LossTracker(PerceptronRanker(), {"u": np.array([1.0, u])}) for u in (0.0, 1.0))
    assert settings_of(first) != settings_of(second)
    assert settings_of(first) == settings_of(first.clone())


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data())
def test_a_header_changed_anywhere_gives_a_model_or_one_error(data):
    """Replace one random node of the tree by something else; checksums are right, so every check of the content is reached."""
    junk = st.sampled_from(
        [None, True, -1, 10**30, 1e300, "", "x", [], {}, [1], {"array": 0}, {"tuple": []}, {"dict": []}, {"float": "nan"}]
    )

    def edit(header):
        path, node = [], header["object"]
        while isinstance(node, dict | list) and node and data.draw(st.booleans() if path else st.just(True)):
            key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
            path.append((node, key))
            node = node[key]
        path[-1][0][path[-1][1]] = data.draw(junk)

    try:
        model = from_bytes(repacked(to_bytes(learned(5)), edit))
    except ModelFileError:
        return
    assert len(model.predict_one(np.ones((3, model.n_features or 4)))) == 3


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.npz"
    save(learned(), path)
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(learned(40), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.npz"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_permissions_of_a_file_are_kept(tmp_path, mode):
    path = tmp_path / "m.npz"
    save(learned(), path)
    path.chmod(mode)
    save(learned(30), path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        save(learned(), tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(OSError, match="not a regular file"):
        save(learned(), os.devnull)


def test_saving_through_a_link_keeps_the_link_and_permissions_follow_the_umask(tmp_path):
    (tmp_path / "real.npz").write_bytes(b"old")
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    save(learned(), tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert type(load(tmp_path / "real.npz")) is PerceptronRanker
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "real.npz").stat().st_mode) == 0o666 & ~mask


class Custom(Ranker):
    def _grow(self, n_new):
        pass

    def _score(self, X):
        return np.zeros(len(X))

    def _learn(self, block, rounds):
        return len(block.w)


def test_rankers_from_elsewhere_are_refused():
    with pytest.raises(TypeError, match="Custom"):
        to_bytes(Custom())


def test_a_rolling_metric():
    class_ = importlib.import_module("online_rank.metrics").NDCG
    rolling, again = utils.Rolling(class_, window_size=3, k=10), None
    for scores in ([1.0, 2.0], [2.0, 1.0], [0.0, 0.0], [1.0, 0.5]):
        rolling.update([0, 1], scores)
    again = from_bytes(to_bytes(rolling))
    for each in (rolling, again):
        each.update([2, 1], [0.0, 1.0])
    assert again.get() == rolling.get()
    assert again.window_size == 3


def test_a_parameter_that_an_older_version_did_not_know_takes_its_default():
    model = learned(half_life=0)
    old = repacked(to_bytes(model), lambda header: header["object"]["parameters"].pop("norm_cap") and None)
    found = from_bytes(old)
    assert (found.norm_cap, found.half_life) == (None, 0)
    assert to_bytes(found) == to_bytes(model)
    lifted = to_bytes(ForEachDocument(preprocessing.StandardScaler()))
    lacking = repacked(lifted, lambda header: header["object"]["parameters"].pop("transformer") and None)
    with pytest.raises(ModelFileError, match="has no parameter 'transformer'"):
        from_bytes(lacking)


def test_a_file_is_not_blamed_for_a_lack_of_memory(monkeypatch):
    """It said that the class does not accept its parameters."""
    content = to_bytes(PerceptronRanker())

    def without_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr(PerceptronRanker, "__init__", without_memory)
    with pytest.raises(ModelFileError, match="needs more memory than there is"):
        from_bytes(content)


def test_reading_a_model_takes_the_memory_of_the_file_and_not_of_the_largest(tmp_path):
    """`rank` ended out of memory with less than 2 GB of address space."""
    save(PerceptronRanker(), tmp_path / "m")
    load(tmp_path / "m")
    tracemalloc.start()
    load(tmp_path / "m", max_bytes=1 << 30)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[(tmp_path / "m").read_bytes()])
    writing.start()
    assert repr(load(tmp_path / "pipe")) == repr(PerceptronRanker())
    writing.join()
