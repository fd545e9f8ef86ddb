"""Forty hostile levels go through every target that has texts, and documents with them are scored as by the model."""

import json
import unicodedata

import duckdb
import numpy as np
import pytest

from online_rank import AdditiveRanker
from online_rank.export import export
from tests.export.beyond import exported_scores
from tests.export.test_curves import texts_of
from tests.reference import engines, postgresql

#: What formats, languages and collations give a meaning to, or change.
HOSTILE = [
    "New York", "New  York", "New\tYork", "New\u00a0York", "New\u2003York", "new york", "NEW YORK", "a'b", "a''b", 'a"b',
    "a\\b", "a\\'b", "\\", "'", "a`b", "a;b", "a--b", "/* a */", "a%b", "a_b", "a,b", "a=b", "a:b", "a|b", "$a$", "${a}",
    "{{a}}", "}", "{", "<b>", "&amp;", "a\nb", "null", "NaN", "0", "1e5", "caf\u00e9", "\u00c5ngstr\u00f6m", "\U0001f600",
    "\u4e2d\u6587",
]  # fmt: skip


def taught(levels):
    """A model that has learned a separate value for each level."""
    model = AdditiveRanker(relative=False, max_levels=len(levels) - 3, kinds={"brand": "category"})
    documents = {str(i): {"brand": level} for i, level in enumerate(levels)}
    for step in range(30):
        model.learn_one(documents, {name: (int(name) * 7 + step) % 3 for name in documents})
    assert model._words.share
    return model


def asked(levels):
    """Documents with the levels, and with what reads almost alike: in form NFD, with blanks around it, one blank for two."""
    texts = [*levels, *(unicodedata.normalize("NFD", level) for level in levels), *(f" {level}\t" for level in levels)]
    return [*dict.fromkeys([*texts, "other", "a b", ""])]


def expected(model, texts):
    """The scores of the model; three levels have a weight but no column, and are exported as others without one."""
    return exported_scores(model, [{"brand": text} for text in texts])


def of_sql(text, texts, execute, query):
    execute('CREATE TABLE online_rank ("query" INT, doc INT, brand VARCHAR(99))', [])
    for i, level in enumerate(texts):
        execute(f"INSERT INTO online_rank VALUES (1, {i}, {query})", [level])
    found = dict(execute(f"SELECT doc, score FROM ({text}) AS scored", []))
    return np.array([float(found[i]) for i in range(len(texts))])


@pytest.mark.parametrize("levels", [HOSTILE, [*HOSTILE[:20], "x"]], ids=["forty", "ascii"])
def test_duckdb_scores_documents_as_the_model_does(levels):
    model, texts = taught(levels), asked(levels)
    with duckdb.connect() as database:
        found = of_sql(export(model, "duckdb"), texts, lambda text, values: database.execute(text, values).fetchall(), "?")
    assert np.ptp(found - expected(model, texts)) < 1e-6


@pytest.mark.slow
def test_postgresql_scores_documents_as_the_model_does():
    if postgresql.programs() is None:
        pytest.skip("no PostgreSQL here")
    import psycopg

    model, texts = taught(HOSTILE), asked(HOSTILE)
    with postgresql.running() as server:
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute("CREATE DATABASE texts ENCODING 'UTF8' TEMPLATE template0")
        with psycopg.connect(server.address.replace("/postgres?", "/texts?"), autocommit=True) as connection:

            def execute(text, values):
                done = connection.execute(text, values or None)
                return done.fetchall() if done.description else []

            found = of_sql(export(model, "postgresql"), texts, execute, "%s")
    assert np.ptp(found - expected(model, texts)) < 1e-6


def test_a_script_of_painless_keeps_the_blanks_of_levels():
    """Blanks were joined: "New  York", a tab and a no-break space became one blank."""
    model = taught(HOSTILE)
    names = texts_of(model)
    X = np.eye(len(names))
    found = engines.painless(json.loads(export(model, "painless")), names, X)
    raw = np.where(found >= 1.0, found - 1.0, 1.0 - 1.0 / np.minimum(found, 1.0))
    own = [name.partition("=")[2] for name in names]
    levels = [level if level != "*" else "other" for level in own]
    assert np.ptp(raw - expected(model, levels)) < 1e-6


def test_vespa_refuses_levels_that_would_end_an_expression_and_names_them():
    # Levels that differ in blanks alone would get one name, and are refused, too.
    levels = [level for level in HOSTILE if not level.startswith("New")]
    with pytest.raises(ValueError, match=r"the level '\$\{a\}' has a brace, which ends an expression"):
        export(taught(levels), "vespa", name="model")
    model = taught([level for level in levels if not {*"{}"} & {*level}])
    text = export(model, "vespa", name="model")
    names = texts_of(model)
    levels = [name.partition("=")[2] if not name.endswith("=*") else "other" for name in names]
    found = engines.vespa(text, names, np.eye(len(names)))
    assert np.ptp(found - expected(model, levels)) < 1e-6
    assert text.count("{") == text.count("}")


def test_json_has_the_levels_as_they_are():
    model = taught(HOSTILE)
    listed = [level for level, _ in json.loads(export(model, "json"))["categories"]["brand"]]
    assert [level for level in listed if level is not None] == HOSTILE[: len(listed) - 1]
