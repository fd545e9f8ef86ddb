"""Model files made by an attacker, with good checksums: what each did before files were checked against declarations."""

import io
import json
import tracemalloc

import numpy as np
import pytest
from river import compose

import online_rank
from online_rank import LossTracker, PerceptronRanker, StreamQuantileMap, StreamScaler
from online_rank.base.schema import declared_state
from online_rank.serving import PendingQueries
from online_rank.storage.archive import read_archive, write_archive
from online_rank.storage.files import ModelFileError, from_bytes, to_bytes
from online_rank.storage.objects import class_of
from online_rank.support import registry
from tests.helpers import let_wait
from tests.models import arguments_of

X, Y = np.random.default_rng(0).normal(size=(6, 3)), [0, 1, 2, 1, 0, 2]


def taught(model, n=3):
    for _ in range(n):
        model.learn_one(X, Y)
    return model


def forged(content, arrays=None, edit=None):
    """A model file with arrays of the model's state replaced, by name, or its tree edited."""
    members = dict(read_archive(content))
    header = json.loads(bytes(members["header.json"]))
    for name, array in (arrays or {}).items():
        buffer = io.BytesIO()
        np.save(buffer, array)
        members[f"{header['object']['state'][name]['array']}.npy"] = buffer.getvalue()
    if edit is not None:
        edit(header["object"])
    members["header.json"] = json.dumps(header).encode()
    return write_archive((name, bytes(data)) for name, data in members.items())


@pytest.mark.parametrize("shape", [(1, 0), (0, 10), (1, 9), (10,), (2, 10)])
def test_kernels_do_not_write_past_a_last_round_that_is_too_short(shape):
    """D1: of shape (1, 0) it was accepted, and kernels wrote ten numbers into it."""
    with pytest.raises(ModelFileError, match="_last_round should be an array"):
        from_bytes(forged(to_bytes(taught(PerceptronRanker())), {"_last_round": np.zeros(shape)}))


def test_a_ranker_inside_of_another_width_is_refused():
    """D1: its kernel read past its weights."""
    model = taught(LossTracker(PerceptronRanker()))
    other = PerceptronRanker()
    other.learn_one(X[:, :2], Y)
    assert from_bytes(to_bytes(model)).n_features == 3
    model._learner = other
    with pytest.raises(TypeError, match="_learner has 2 features"):
        to_bytes(model)


@pytest.mark.parametrize("number", [np.inf, np.nan, -1.0, 1e300])
def test_a_last_round_has_a_number_of_documents(number):
    model = taught(PerceptronRanker())
    row = np.array([[*model.last_round._replace(n_documents=number)]], dtype=np.float64)
    with pytest.raises(ModelFileError, match=r"_last_round has .* documents"):
        from_bytes(forged(to_bytes(model), {"_last_round": row}))


def test_members_that_overlap_do_not_take_their_size_again_and_again():
    """D5: 10 MB of file became 11.9 GB."""
    content = to_bytes(taught(PerceptronRanker()))
    end = content.index(b"PK\x01\x02")
    directory = content[end : content.index(b"PK\x05\x06")]
    many = content[:end] + directory * 1000 + content[content.index(b"PK\x05\x06") : -64]
    import hashlib

    bomb = many + hashlib.sha256(many).hexdigest().encode()
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="directory does not match its members"):
            from_bytes(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(bomb)
    finally:
        tracemalloc.stop()


def settings_that_are_numbers():
    for name in registry.classes():
        if name in ("Ranker", "Round", "CheckpointError", "ModelFileError", "Trace"):
            continue
        cls = class_of_or_none(name)
        if cls is None:
            continue
        try:
            given = arguments_of(cls)[0]
            content = to_bytes(cls(**given))
        except (TypeError, ImportError):  # It holds what no file keeps, such as a module of torch, or torch is not here.
            continue
        tree = json.loads(bytes(read_archive(content)[0][1]))["object"]
        for key, value in tree["parameters"].items():
            if type(value) in (int, float) or (isinstance(value, dict) and "tuple" in value):
                yield pytest.param(cls, content, key, id=f"{name}-{key}")


def class_of_or_none(name):
    try:
        cls = class_of(name, "here")
        return cls if hasattr(cls, "learn_one") and not getattr(cls, "__abstractmethods__", None) else None
    except ModelFileError:
        return None
    except ValueError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "content", "key"), list(settings_that_are_numbers()))
@pytest.mark.parametrize("value", [10**9, 2**62, {"tuple": [2**31]}, {"tuple": [10**5] * 5}])
def test_no_setting_of_a_file_makes_a_constructor_or_the_first_query_take_much_memory(cls, content, key, value):
    """D5: constructors allocate against a budget, and refuse settings that no machine has the memory for."""
    from_bytes(content).learn_one(X, Y)  # Compiles, which takes memory too.
    tracemalloc.start()
    try:
        model = from_bytes(forged(content, edit=lambda tree: tree["parameters"].update({key: value})))
        model.learn_one(X, Y)
    except (ModelFileError, ValueError, TypeError):
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 64 << 20


def test_a_pipeline_of_another_width_is_refused_when_loaded_and_in_use_and_not_in_a_kernel():
    """A scaler of 2 features before a ranker of 3 can rank nothing: its file is refused, and in memory each query is."""
    model = taught(StreamScaler() | PerceptronRanker())
    scaler = StreamScaler()
    scaler.learn_one(X[:, :2])
    forgery = online_rank.RankingPipeline(scaler, model["PerceptronRanker"])
    with pytest.raises(ModelFileError, match=r"do not fit one another.*x has 2 features, but PerceptronRanker .* 3"):
        from_bytes(to_bytes(forgery))
    with pytest.raises(ValueError, match="features"):
        forgery.predict_one(X)
    with pytest.raises(ValueError, match="features"):
        forgery.learn_one(X[:, :2], Y)


def test_a_number_of_losses_is_not_negative():
    model = LossTracker(PerceptronRanker())
    model._served[0] = -1.0
    with pytest.raises(TypeError, match=r"_served has entries outside"):
        to_bytes(model)


@pytest.mark.parametrize("total", [1 << 63, 10**400, -(10**400)])
def test_an_integer_in_place_of_a_float_is_refused_or_becomes_one(total):
    """It ended in an OverflowError of a kernel, which `load` does not promise, or had the kernel compiled for ten seconds."""
    model = taught(StreamQuantileMap())

    def edit(tree):
        tree["state"]["_total"] = total

    try:
        assert type(declared_state(from_bytes(forged(to_bytes(model), edit=edit))).total) is float
    except ModelFileError:
        assert abs(total) > 1 << 63


@pytest.mark.parametrize("shape", ["(0, 18446744073709551616)", "(0, 4611686018427387904, 8)", "(99999999999999999999, 0)"])
def test_an_empty_array_with_a_size_beyond_all_arrays_is_refused(shape):
    members = dict(read_archive(to_bytes(taught(PerceptronRanker()))))
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    members["0.npy"] = b"\x93NUMPY\x01\x00v\x00" + header.encode()
    with pytest.raises(ModelFileError, match="impossible shape"):
        from_bytes(write_archive((name, bytes(data)) for name, data in members.items()))


@pytest.mark.parametrize("numbers", [(1, 9), (2, 1), (1, 1), (0, 1)])
def test_waiting_queries_have_numbers_in_order_that_have_come(numbers):
    """Beyond the next number they were written past the end of what waits."""
    pending = PendingQueries()
    for name in "ab":
        let_wait(pending, name, ("text", [0.5], None))

    def edit(tree):
        for row, number in zip(tree["state"]["_queries"]["dict"][1], numbers, strict=True):
            row["tuple"][0] = number

    with pytest.raises(ModelFileError, match="the waiting queries are not in the order of their numbers"):
        from_bytes(forged(to_bytes(pending), edit=edit))


@pytest.mark.parametrize("inner", ["ours", "river's"])
def test_a_pipeline_without_steps_is_refused_where_a_model_stands(inner):
    """river's `isinstance` asks a pipeline for its last step, which was an IndexError."""
    model = online_rank.BlendRanker([StreamScaler() | PerceptronRanker()])

    def edit(tree):
        pipeline = tree["parameters"]["rankers"][0]
        pipeline["parameters"]["steps"] = []
        if inner == "river's":
            pipeline.update({"class": "river.compose.Pipeline", "state": {}})

    with pytest.raises(ModelFileError, match=r"does not end in a ranker|it is a ranker, or a pipeline|steps is empty"):
        from_bytes(forged(to_bytes(model), edit=edit))
    with pytest.raises(TypeError, match="it is a ranker, or a pipeline"):
        online_rank.BlendRanker([online_rank.RankingPipeline()])


def test_a_union_without_transformers_is_a_model_like_any_other():
    """Only river's `Pipeline` needs a step; what was accepted can be saved."""
    model = online_rank.preprocessing.ForEachDocument(compose.TransformerUnion()) | PerceptronRanker()
    model.learn_one({"a": {"x": 1.0}, "b": {"x": 2.0}}, {"a": 0, "b": 1})
    assert repr(from_bytes(to_bytes(model))) == repr(model)


@pytest.mark.parametrize("header", [b"{'descr': '<f8', (", b"[", b"{'descr': '''", b"(" * 5000, b"\\\n", b"\x00"])
def test_a_header_of_an_array_that_is_no_python_is_an_error_about_the_file(header, tmp_path):
    """An open bracket raised tokenize.TokenError."""
    members = dict(read_archive(to_bytes(taught(PerceptronRanker()))))
    members["0.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
    path = tmp_path / "model.npz"
    path.write_bytes(write_archive((name, bytes(data)) for name, data in members.items()))
    with pytest.raises(ModelFileError, match=r"model\.npz: its array 0\.npy ") as caught:
        online_rank.load(path)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("columns", [[0, 1, 4], [0, 1, 201], [0, 1, 1]])
def test_columns_of_curves_lie_in_the_matrix_of_the_second_order_member(columns):
    """Kernels wrote where these columns said."""
    model = taught(online_rank.AdditiveRanker())
    assert (declared_state(model).places[:, 0].tolist(), len(declared_state(model).pending)) == ([0, 1, 2], 3)
    places = declared_state(model).places.copy()
    places[:, 0] = columns
    with pytest.raises(ModelFileError, match="each column of the second-order member is below 3, and of one feature"):
        from_bytes(forged(to_bytes(model), {"_places": places}))
