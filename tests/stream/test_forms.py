"""Runs and judgements in the forms in which other tools keep them, each written by hand."""

import gzip
import json

import pytest

from online_rank import read
from online_rank.stream import ReadError, ReadWarning
from online_rank.stream.trec import judged_rankings, read_judgements, read_run


def written(folder, text, name="file"):
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    "text",
    [
        "q1\ta\t1\nq1\tb\t2\nq2\tc\t1\n",
        "q1 a 1\nq1 b 2\nq2 c 1\n",
        "qid\tpid\trank\nq1\ta\t1\nq1\tb\t2\nq2\tc\t1\n",
        "q1 a 0\nq1 b 3\nq2 c 7\n",  # from 0, with gaps
    ],
)
def test_a_run_of_ms_marco_is_ordered_by_its_ranks(tmp_path, text):
    with pytest.warns(ReadWarning, match=r"file: read as MS MARCO \(query, document, rank\)"):
        run = read_run(written(tmp_path, text))
    assert {qid: [*scores] for qid, scores in run.items()} == {"q1": ["a", "b"], "q2": ["c"]}


@pytest.mark.parametrize(
    "text", ["q1 a 0.25\nq1 b 0.5\n", "q1 b 3\nq1 a 1\n", "q1 a 1\nq1 b 2\nq1 c 1\n", "q1 a -3\nq1 b -1\n"]
)
def test_three_columns_with_numbers_that_are_no_ranks_are_scores(tmp_path, text):
    with pytest.warns(ReadWarning, match=r"read as three columns \(query, document, score\)"):
        assert next(iter(read_run(written(tmp_path, text))["q1"])) == "b"


def test_ids_with_blanks_stand_between_tabs_in_three_columns(tmp_path):
    with pytest.warns(ReadWarning, match="MS MARCO"):
        assert read_run(written(tmp_path, "q1\ta\t1\nq1\tb c\t2\n")) == {"q1": {"a": -1.0, "b c": -2.0}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("q1 a x\n", "line 1: 3 columns, not 'qid Q0 docid rank score tag', nor query, document and a number: 'x'"),
        ("q1 a 1\nq1 b\n", "line 2: 2 columns, and the first line has 3"),
        ("q1 a 1\nq1 a 2\n", "line 2: document a of query q1 occurs twice, first on line 1"),
        ('{"q1": {"a": "x"}}', "query 'q1': the score 'x' is not a finite number"),
        ('{"q1": {"a": null}}', "query 'q1': the score is missing: 'null'"),
        ('{"q1": 3}', "query 'q1' has a int; known forms are"),
        ('{"q1": {"a": 1, "a": 2}}', "'a' is given twice in one object"),
        ('{"q1": {"a": 1}', "not an object of JSON, nor one on each line"),
        ('{"judgmentRatings": []}', "judgements of the Search Relevance Workbench, and a run is wanted"),
        ("query,docid\n", "1 columns, not"),
        ("query,docid,rating\nq,a,1\n", "no column is called a score or a rank; there are query, docid, rating"),
    ],
)
def test_a_run_that_cannot_be_read_is_named(tmp_path, text, told):
    with pytest.raises(ReadError, match=f"file.*{told}"):
        read_run(written(tmp_path, text))


JUDGED = {"star wars": {"11": 3, "1891": 0}, "ice age": {"425": 2}}

WORKBENCH = {
    "name": "Imported",
    "type": "IMPORT_JUDGMENT",
    "judgmentRatings": [
        {"query": "star wars", "ratings": [{"docId": "11", "rating": "3.000"}, {"docId": "1891", "rating": 0}]},
        {"query": "ice age", "ratings": [{"docId": 425, "rating": 2.0}]},
    ],
}
ANSWER = {"took": 3, "hits": {"total": {"value": 1}, "hits": [{"_index": "search-relevance-judgment", "_source": WORKBENCH}]}}
FIRST_FORM = {"judgmentRatings": {one["query"]: one["ratings"] for one in WORKBENCH["judgmentRatings"]}}
ROWS = [{"query": q, "doc_id": d, "grade": grade} for q, grades in JUDGED.items() for d, grade in grades.items()]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (json.dumps(JUDGED), "JSON, a dict of each query"),
        (json.dumps(JUDGED, indent=2), "JSON, a dict of each query"),
        ("".join(json.dumps({q: grades}) + "\n" for q, grades in JUDGED.items()), "JSON, a dict of each query"),
        (json.dumps(ROWS, indent=1), "JSON, an object of each document"),
        ("".join(json.dumps(row) + "\n" for row in ROWS), "JSON, an object of each document"),
        (json.dumps(WORKBENCH), "Search Relevance Workbench"),
        (json.dumps(FIRST_FORM), "Search Relevance Workbench"),
        (json.dumps(ANSWER, indent=2), "Search Relevance Workbench"),
        (json.dumps({"_index": "x", "_source": WORKBENCH}) + "\n", "Search Relevance Workbench"),
        ("query,docid,rating\nstar wars,11,3\nstar wars,1891,0\nice age,425,2\n", "Quepid"),
        ("query;docid;rating\nstar wars;11;3\nstar wars;1891;0\nice age;425;2\n", "Quepid"),
        ('query,docid,rating\r\n"star wars",11,3\r\nstar wars,1891,0.0\r\nice age,425,2\r\n', "Quepid"),
        (
            "Team Name,Case Name,Case ID,Query Text,Doc ID,Title,Rating,genre\n"
            'us,"a, b",7,star wars,11,"A ""New""\nHope",3,x\nus,c,7,star wars,1891,t,0,y\nus,c,7,ice age,425,t,2,y\n',
            "Quepid",
        ),
        (
            "query,docid,Ada,Bo,Cy\nstar wars,11,3,3,2\nstar wars,1891,0,,0\nice age,425,2,1,2\n",
            r"a book of Quepid \(the rounded mean of 3 judges\)",
        ),
        ("query_id,doc_id,relevance\nstar wars,11,3\nstar wars,1891,0\nice age,425,2\n", "csv"),
        (
            json.dumps(
                {"queries": [{"query": q, "ratings": {d: str(grade) for d, grade in one.items()}} for q, one in JUDGED.items()]}
            ),
            "Quepid",
        ),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_judgements_of_other_tools(tmp_path, text, form, zipped):
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(text.encode()) if zipped else b"\xef\xbb\xbf" + text.encode())
    with pytest.warns(ReadWarning, match=f"file: read as {form}$"):
        assert read_judgements(path) == JUDGED


@pytest.mark.parametrize(
    "text",
    [
        "query,docid,rating\nstar wars,11,3\nunrated query\nstar wars,5,\n",
        "Query Text,Doc ID,Rating\nstar wars,11,3\nstar wars,5,\nunrated query,,\n",
    ],
)
def test_documents_of_quepid_without_a_rating_are_counted(tmp_path, text):
    with pytest.warns(ReadWarning, match="read as Quepid; left out: 2 documents without a rating"):
        assert read_judgements(written(tmp_path, text)) == {"star wars": {"11": 3}}


def test_a_snapshot_of_quepid_is_a_run(tmp_path):
    text = "Snapshot Name,Snapshot Time,Case ID,Query Text,Doc ID,Doc Position\ns,t,1,star wars,11,1\ns,t,1,star wars,5,2\n"
    with pytest.warns(ReadWarning, match="read as Quepid"):
        assert [*read_run(written(tmp_path, text))["star wars"]] == ["11", "5"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("query,docid,rating\nq,a,x\n", "line 2: the grade 'x' is not an integer"),
        ("query,docid,rating\n\nq,a,1\nq,b,1,1\n", "line 4: 4 columns, and the header has 3"),
        ("query,docid,Ada\nq,a,good\n", "line 2: the rating 'good' is not a number"),
        ('{"q": {"a": 0.5}}', "query 'q': the grade '0.5' is not an integer"),
        ('{"q": {"a": [1]}}', "query 'q': the grade '.1.' is not an integer"),
        ('{"judgmentRatings": [{"query": "q"}]}', "an object of judgmentRatings has no query, or no list of ratings"),
        ('{"judgmentRatings": [{"query": "q", "ratings": [{"rating": 1}]}]}', "query 'q': a rating has no docId"),
        ('{"judgmentRatings": [3]}', "3 stands where an object is wanted"),
        ('{"judgmentRatings": [{"query": "q", "ratings": [{"docId": "a"}]}]}', "query 'q': the grade is missing"),
        ('[{"query": "q", "docid": "a", "grade": 1}, 3]', "object 2: a int, and an object is wanted"),
        ('[{"query": "q", "docid": "a", "grade": 1},', "the array is not closed"),
    ],
)
def test_judgements_that_cannot_be_read_are_named(tmp_path, text, told):
    with pytest.raises(ReadError, match=f"file.*{told}"):
        read_judgements(written(tmp_path, text))


def test_a_run_and_judgements_of_json_are_measured(tmp_path):
    run = written(tmp_path, '{"q1": {"a": 3.0, "b": 2.5}}', "run.json")
    qrels = written(tmp_path, '{"q1": {"b": 1, "a": 0}}', "qrels.json")
    with pytest.warns(ReadWarning, match="a dict of each query"):
        assert [*judged_rankings(run, qrels)] == [({"a": 0, "b": 1}, {"a": 0.0, "b": -1.0})]


# An array as a table

TABLE = [{"q": 1, "g": 1, "a": 1.5, "t": "x]"}, {"q": 1, "g": 0, "a": 2, "t": None}, {"q": 2, "g": 1, "a": 0, "t": 'y"},{'}]


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("name", ["t.json", "t", "t.json.gz"])
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_one_array_of_objects_is_a_table(tmp_path, monkeypatch, indent, name, piece):
    monkeypatch.setattr("online_rank.stream.source._CHUNK", piece)
    text = json.dumps(TABLE, indent=indent).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    found = [
        (x.X.tolist(), y.tolist(), qid, ids)
        for x, y, qid, ids in read(tmp_path / name, query="q", grade="g", document="t", with_ids=True)
    ]
    assert found == [([[1.5], [2.0]], [1, 0], "1", ["x]", ""]), ([[0.0]], [1], "2", ['y"},{'])]


def test_an_array_of_whole_queries(tmp_path):
    queries = [{"id": i, "docs": {"a": {"x": 3}, "b": {"x": i}}, "grades": {"a": 1, "b": 0}} for i in (1, 2)]
    path = written(tmp_path, json.dumps(queries, indent=2))
    found = [(x.X.tolist(), y.tolist(), qid) for x, y, qid, _ in read(path, with_ids=True, missing="zero")]
    assert found == [([[3.0], [1.0]], [1, 0], "1"), ([[3.0], [2.0]], [1, 0], "2")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[{"q": 1, "g": 1, "a": 1},\n {"q": 1, "g": 1, "a": "x"}]', "column 'a' is not a feature: text"),
        ('[{"q": 1, "g": 1, "a": 1},\n {"q": 1, "g": 1, "a"}]', "line 2, object 2: "),
        ('[{"q": 1, "g": 1, "a": 1, "a": 2}]', "line 1, object 1: 'a' is given twice in one object"),
        ('[{"q": 1, "g": 1, "a": 1}', "the array is not closed by ]: the file is cut short"),
        ('[{"q": 1, "g": 1, "a": 1}] []', "'..' follows the array of objects"),
        ("[]", "no rows"),
    ],
)
def test_an_array_that_cannot_be_read_is_named(tmp_path, text, told):
    with pytest.raises(ValueError, match=f"file.*{told}"):
        list(read(written(tmp_path, text), query="q", grade="g", features=["a"]))
