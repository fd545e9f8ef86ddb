"""Words, the query's own words, and levels by weight, in an `AdditiveRanker`."""

import copy

import numpy as np
import pandas as pd
import pytest

from online_rank import AdditiveRanker, BlendRanker, ClickBlendRanker, measure
from online_rank.bounds import LossTracker, certificate_of
from online_rank.export import export
from online_rank.feedback import Impression
from online_rank.query import read_query
from online_rank.query.levels import Levels, read_block
from online_rank.query.words import keys_of, words_of
from online_rank.rankers.worded import Texts
from online_rank.storage.files import from_bytes, to_bytes

WORTH = np.random.default_rng(99).normal(size=60)


def shop(n, seed=0, m=12):
    """Queries whose grades follow from the words of a title."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x, s = {}, []
        for i in range(m):
            words = rng.choice(60, 5, replace=False)
            s.append(WORTH[words].sum() + 0.2 * rng.normal())
            x[f"d{i}"] = {"title": " ".join(f"w{j}" for j in words), "price": float(rng.normal())}
        yield x, dict(zip(x, np.searchsorted([0.0, 2.0, 4.0], s).tolist(), strict=True))


def taught(n=40, **given):
    model = AdditiveRanker(trees=0, **given)
    for x, y in shop(n):
        model.learn_one(x, y)
    return model


def test_words_of_titles_are_learned():
    model, quality = taught(80), []
    for x, y in shop(30, seed=5):
        quality.append(measure("ndcg@10").value([*model.predict_one(x).values()], [*y.values()]))
    assert np.mean(quality) > 0.9
    assert model.feature_kinds == {"price": "number", "title": "text"}
    assert model.n_words == 60
    losses = model.words_beside.losses
    assert losses[2] < 0.6 * losses[0]


@pytest.mark.parametrize("clicks", [False, True])
def test_a_blend_learns_the_words_of_titles(clicks):
    """A blend read words, and then dropped them: it ranked by the number of words in a title."""
    model, quality = ClickBlendRanker() if clicks else BlendRanker([AdditiveRanker(trees=0)]), []
    for x, y in shop(100):
        model.learn_one(x, Impression(tuple(x)).clicked([name for name in x if y[name] > 1]) if clicks else y)
    for x, y in shop(30, seed=5):
        quality.append(measure("ndcg@10").value([*model.predict_one(x).values()], [*y.values()]))
    assert np.mean(quality) > 0.9
    told, scores = model.explain_one(x, "d0", "d1"), model.predict_one(x)
    assert "title=" in "".join(told.contributions)
    assert sum(told.contributions.values()) == pytest.approx(scores["d0"] - scores["d1"])


@pytest.mark.parametrize("clicks", [False, True])
def test_a_blend_takes_the_words_of_queries(clicks):
    """A blend refused a context, unless a step before it took one: then it learned from it."""
    model, rng, quality = ClickBlendRanker() if clicks else BlendRanker([AdditiveRanker()]), np.random.default_rng(0), []
    for t in range(100):
        segment, brands = int(rng.integers(2)), rng.integers(2, size=8)
        x = {f"d{i}": {"brand": "ab"[brand], "price": float(rng.normal())} for i, brand in enumerate(brands)}
        y, context = {name: int(brands[i] == segment) for i, name in enumerate(x)}, {"segment": f"s{segment}"}
        if t >= 60:
            quality.append(measure("ndcg@10").value([*model.predict_one(x, context=context).values()], [*y.values()]))
        fed = Impression(tuple(x)).clicked([name for name in x if y[name]]) if clicks else y
        model.learn_one(x, fed, context=context)
    assert np.mean(quality) > 0.95
    told, scores = model.explain_one(x, "d0", "d1", context=context), model.predict_one(x, context=context)
    assert sum(told.contributions.values()) == pytest.approx(scores["d0"] - scores["d1"])


def test_a_blend_learns_a_block_of_queries_as_a_loop_does():
    """`learn_many` read all queries of a block before it learned the first, so that early titles were levels."""
    (one, many), queries, held = [BlendRanker([AdditiveRanker(trees=0)]) for _ in range(2)], [*shop(30)], [*shop(5, seed=5)]
    for x, y in queries:
        one.learn_one(x, y)
    table = pd.DataFrame([document for x, _ in queries for document in x.values()])
    qid = np.repeat(np.arange(30), [len(x) for x, _ in queries])
    many.learn_many(table, [grade for _, y in queries for grade in y.values()], qid)
    for x, _ in held:
        assert many.predict_one(x) == one.predict_one(x)


def test_members_of_a_blend_read_texts_by_their_own_settings():
    """The first member read for all: without its words none had words, and `explain_one` read by the settings of each."""
    no_words, quality = AdditiveRanker(trees=0, kinds={"title": "ignored"}), []
    model = BlendRanker([no_words, AdditiveRanker(trees=0, max_levels=3)])
    for x, y in shop(60):
        model.learn_one(x, y)
    for x, y in shop(20, seed=5):
        quality.append(measure("ndcg@10").value([*model.predict_one(x).values()], [*y.values()]))
    assert np.mean(quality) > 0.9
    told, scores = model.explain_one(x, "d0", "d1"), model.predict_one(x)
    assert sum(told.contributions.values()) == pytest.approx(scores["d0"] - scores["d1"])
    assert from_bytes(to_bytes(model)).predict_one(x) == scores


@pytest.mark.parametrize(
    "make", [AdditiveRanker, lambda: BlendRanker([AdditiveRanker()]), lambda: LossTracker(AdditiveRanker())]
)
def test_early_titles_are_texts_like_all_others(make):
    """A blend keeps the levels that the first titles had: a query of these titles alone was ranked without words."""
    model, queries = make(), [*shop(60)]
    for x, y in queries:
        model.learn_one(x, y)
    (first, _), (last, _) = queries[0], queries[-1]
    both = model.predict_many(pd.DataFrame([*first.values(), *last.values()]), np.repeat([0, 1], [len(first), len(last)]))
    assert [*both] == [*model.predict_one(first).values(), *model.predict_one(last).values()]


def test_tokens():
    assert words_of("Red RUNNING-shoe 42") == ["red", "running", "shoe", "42"]
    assert words_of("\u4eac\u90fd\u5e02") == ["\u4eac\u90fd", "\u90fd\u5e02"]
    assert words_of("Stra\u00dfe \u4eac") == ["strasse", "\u4eac"]
    # Vowel signs of Hindi, accents of Hebrew, and what is left of a Turkish capital.
    for word in (
        "\u0915\u093e",
        "\u0928\u092e\u0938\u094d\u0924\u0947",
        "\u05e2\u05b4\u05d1\u05b0\u05e8\u05b4\u05d9\u05ea",
        "i\u0307zmir",
    ):
        assert words_of(f"{word}, {word}\u0964") == [word, word]
    assert keys_of(["title="], [["red"]]).tolist() == keys_of([""], [["title=red"]]).tolist()


def test_files_copies_and_refused_queries_keep_every_bit():
    model = taught(20)
    content = to_bytes(model)
    assert to_bytes(from_bytes(content)) == content == to_bytes(copy.deepcopy(model))
    x, y = next(shop(1, seed=7))
    with pytest.raises(ValueError, match="grade of document 'd0' is -1"):
        model.learn_one(x, {**y, "d0": -1})
    new = {name: {**one, "title": f"{one['title']} never met {name}"} for name, one in x.items()}
    with pytest.raises(ValueError, match="'price' of document 'd0' is inf"):
        model.learn_one({**new, "d0": {**new["d0"], "price": np.inf}}, y)
    assert to_bytes(model) == content
    model.learn_one(x, y)
    other = from_bytes(content)
    other.predict_one(x)
    other.learn_one(x, y)
    assert to_bytes(model) == to_bytes(other)


@pytest.mark.parametrize("trees", [0, 400])
def test_a_loaded_model_ranks_as_the_one_that_was_saved(trees):
    """Without trees, a model with words ranked its next query by the blend of the query before."""
    model = AdditiveRanker(trees=trees, kinds={"title": "text", "q": "text"}, max_levels=3)
    for t, (x, y) in enumerate(shop(12)):
        x = {name: {**one, "brand": f"b{(i + t) % 8}"} for i, (name, one) in enumerate(x.items())}
        model.learn_one(x, y, context={"q": "w1 w2 w3", "segment": f"s{t % 2}"})
        loaded, context = from_bytes(to_bytes(model)), {"q": "w2 w3", "segment": "s1"}
        assert loaded.predict_one(x, context=context) == model.predict_one(x, context=context)
        told = model.explain_one(x, "d0", "d1", context=context)
        assert loaded.explain_one(x, "d0", "d1", context=context) == told


def test_a_block_is_its_queries():
    queries = [*shop(8)]
    one, many = AdditiveRanker(trees=0), AdditiveRanker(trees=0)
    for x, y in queries:
        one.learn_one([*x.values()], [*y.values()])
    many.learn_many(
        [document for x, _ in queries for document in x.values()],
        [grade for _, y in queries for grade in y.values()],
        np.repeat(np.arange(8), 12),
    )
    assert to_bytes(one) == to_bytes(many)


def test_the_order_of_documents_does_not_matter():
    one, other = AdditiveRanker(trees=0), AdditiveRanker(trees=0)
    for x, y in shop(6):
        one.learn_one(x, y)
        other.learn_one(dict([*x.items()][::-1]), y)
    x, _ = next(shop(1, seed=3))
    assert other.predict_one(x) == pytest.approx(one.predict_one(x), rel=1e-6)


def test_explanations_name_words_and_add_up():
    model = taught(40)
    x, _ = next(shop(1, seed=3))
    scores, told = model.predict_one(x), model.explain_one(x, "d0", "d1")
    assert told.difference == pytest.approx(scores["d0"] - scores["d1"])
    assert any(str(name).startswith("title=w") for name in told.contributions)


def test_exports_say_what_stands_in_the_way():
    with pytest.raises(TypeError, match="learned words of 'title'"):
        export(taught(20), "json")


def test_a_certificate_holds():
    assert certificate_of(taught(30)).holds


def test_declared_kinds_win():
    assert taught(3, kinds={"title": "ignored"}).feature_names == ("price",)
    with pytest.raises(ValueError, match="a kind is one of"):
        AdditiveRanker(kinds={"title": "prose"})


def test_shares_of_the_words_of_the_query():
    model = AdditiveRanker(trees=0, kinds={"title": "text", "q": "text"})
    x = [{"title": "red running shoe"}, {"title": "shoe red"}, {"title": "hat"}, {}]
    block = read_query(x, context={"q": "Red Shoe"}, documents=True)
    texts = Texts(model, block, False)
    read = texts.with_columns(read_block(block, Levels((), 100), None, texts.take))
    assert read.names == ("words of title", "query words in title", "query phrase in title")
    # Without anything learned, words are equally rare: both, both, none of the two; in a row in none of them.
    assert read.X[:3].tolist() == [[3.0, 1.0, 0.0], [2.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    assert np.isnan(read.X[3]).all()


def test_pairs_of_context_and_level_are_learned_once_they_recur():
    model, rng = AdditiveRanker(trees=0), np.random.default_rng(0)
    for t in range(120):
        brands = rng.integers(0, 6, 10)
        likes = (brands % 2 == t % 2).astype(int)
        model.learn_one([{"brand": f"b{j}"} for j in brands], likes.tolist(), context={"segment": f"s{t % 2}"})
    x = [{"brand": f"b{j}"} for j in range(6)]
    for t in range(2):
        best = model.rank_one(x, context={"segment": f"s{t}"})[:3]
        assert {j % 2 for j in best} == {t}
    assert model.n_words == 12


def test_a_flood_of_levels_takes_no_place_for_good():
    model, rng, value = AdditiveRanker(trees=0, max_levels=20), np.random.default_rng(0), rng_of_brands()
    model.learn_one([{"brand": f"x{i}"} for i in range(40)], rng.integers(0, 3, 40).tolist())
    for _ in range(60):
        brands = rng.integers(0, 10, 12)
        model.learn_one([{"brand": f"b{j}"} for j in brands], np.searchsorted([-0.5, 0.5], value[brands]).tolist())
    levels = {name[2] for name in model.feature_names}
    assert {f"b{j}" for j in range(10)} < levels
    scores = model.predict_one([{"brand": f"b{j}"} for j in range(10)])
    assert np.corrcoef(scores, value)[0, 1] > 0.8


def rng_of_brands():
    return np.random.default_rng(5).normal(size=10)


def test_words_leave_when_there_are_too_many():
    model = AdditiveRanker(trees=0, kinds={"title": "text"})
    model.max_features = 8
    queries = [[{"title": f"common w{t}a w{t}b w{t}c"}, {"title": f"other w{t}d w{t}e w{t}f"}] for t in range(30)]
    with pytest.warns(UserWarning, match="the most words that it takes, 128"):
        model.learn_many([x for query in queries for x in query], [1, 0] * 30, np.repeat(np.arange(30), 2))
    assert model.n_words <= 128 < model.n_words + model.n_left_words
    assert model._words.weights_of(keys_of(["title="], [["common"]]))[0] > 0.0


def test_ids_that_never_come_again_are_ignored_and_counted():
    model, rng = AdditiveRanker(trees=0), np.random.default_rng(0)

    def query(t):
        return [{"sku": f"{t}x{i}", "price": float(rng.normal())} for i in range(20)]

    def learn(model, n):
        for t in range(n):
            model.learn_one(query(t), rng.integers(0, 3, 20).tolist())

    with pytest.warns(UserWarning, match=r"'sku' hardly ever come again.* n_ignored"):
        learn(model, 12)
    before = model.n_ignored
    model.predict_one(query(99))
    assert model.n_ignored == before + 20
    assert model.feature_kinds == {"sku": "ignored", "price": "number"}
    told = AdditiveRanker(trees=0, kinds={"sku": "ignored"})
    learn(told, 3)
    assert told.n_ignored == 60


def test_levels_and_contexts_in_any_form_of_unicode_are_the_same():
    """A level in form NFD had another weight than in NFC, once its category was full."""
    model, composed, apart = AdditiveRanker(trees=0, max_levels=2), "caf\u00e9 noir", "cafe\u0301 noir"
    for t in range(40):
        x = [{"brand": brand} for brand in (composed, "a", "b", "c", "d")]
        model.learn_one(x, [2 * (t % 2), 0, 1, 1, 2], context={"segment": composed if t % 2 else "other"})
    first, second = model.predict_one([{"brand": composed}, {"brand": apart}], context={"segment": apart})
    assert first == second
    alike = [model.predict_one([{"brand": "c"}, {"brand": apart}], context={"segment": s}) for s in (composed, apart)]
    assert alike[0] == alike[1]
    assert model.predict_one([{"brand": "c"}, {"brand": apart}], context={"segment": "other"}) != alike[0]
