import gzip

import numpy as np
import pytest

from online_rank.stream.trec import judged_rankings, read_judgements, read_run
from online_rank.stream.values import MISSING_WORDS


def test_a_run_is_ordered_by_score_then_by_id_backwards(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 3 0.25 t\nq Q0 c 1 0.5 t\n\nq Q0 b 2 0.25 t\nr Q0 a 1 1e-3 t\n")
    assert {qid: list(scores) for qid, scores in read_run(tmp_path / "run").items()} == {"q": ["c", "b", "a"], "r": ["a"]}


def test_scores_are_compared_in_single_precision(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 2 1.00000001 t\nq Q0 b 1 1.0 t\n")
    with pytest.warns(UserWarning, match="in 1 of 1 lists all scores are equal; the documents are ordered by document id"):
        assert list(read_run(tmp_path / "run")["q"]) == ["b", "a"]


def test_only_judged_queries_count(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 1 2 t\nr Q0 a 1 2 t\n")
    (tmp_path / "qrels").write_text("q 0 a -1\nq 0 z 2\ns 0 a 1\n")
    with pytest.warns(UserWarning, match=r"are measured: 1; left out: 1 of .*run that are not judged; 1 that .* --complete"):
        assert list(judged_rankings(tmp_path / "run", tmp_path / "qrels")) == [
            ({"a": 0, "z": 2}, {"a": 0.0, "z": float("-inf")})
        ]


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ("r 0 a 1\n", "no query of .*run is judged in .*qrels: the first is 'q' there, 'r' here"),
        ("", "qrels: no judgements: the file is empty"),
        ("# only a comment\n", "qrels: no judgements: the file is empty"),
        ("q 0 z 2\n", "no retrieved document of .*run is judged in .*qrels"),
    ],
)
def test_files_that_have_nothing_in_common_are_refused(tmp_path, qrels, message):
    """They were measured, and every figure was 0."""
    (tmp_path / "run").write_text("q Q0 a 1 2 t\n")
    (tmp_path / "qrels").write_text(qrels)
    with pytest.raises(ValueError, match=message):
        list(judged_rankings(tmp_path / "run", tmp_path / "qrels"))


def test_an_empty_run_is_no_mismatch(tmp_path):
    (tmp_path / "run").write_text("")
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    with pytest.raises(ValueError, match="run: no lists: the file is empty"):
        list(judged_rankings(tmp_path / "run", tmp_path / "qrels"))


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read_run, "q Q0 a 1 2\n", r"line 1: 5 columns, not 'qid Q0 docid rank score tag'"),
        (read_run, "q Q0 a 1 2 t\nq Q0 a 2 1 t\n", "line 2: document a of query q occurs twice"),
        (read_run, "q Q0 a 1 high t\n", "line 1: the score 'high' is not a finite number"),
        (read_run, "q Q0 a 1 nan t\n", "line 1: the score is missing: 'nan'"),
        (read_run, "q Q0 a 1 1_0 t\n", "line 1: the score '1_0' is not a finite number"),
        (read_judgements, "q 0 a\n", "line 1: 3 columns"),
        (read_judgements, "q 0 a 1\nq 0 b 1.5\n", "line 2: the grade '1.5' is not an integer"),
        (read_judgements, "q 0 a 1e300\n", "line 1: the grade '1e300' is not an integer"),
        (read_judgements, "q 0 a 1\nq 0 b 1001\n", "line 2: the grade '1001' is above 1000"),
        *((read_judgements, f"q 0 a {word}\n", "line 1: the grade is missing: '") for word in MISSING_WORDS if word),
        (read_judgements, "q\u00a00\u00a0a\u00a01\n", "line 1: 1 columns, not .*; no-break spaces are part of ids"),
    ],
)
def test_bad_lines_are_named(tmp_path, reader, text, message):
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=message):
        reader(tmp_path / "file")


RUN = "q1 Q0 a 1 3.0 t\nq1 Q0 b 2 2.0 t\nq1 Q0 c 3 1.0 t\n"
READ = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}}


@pytest.mark.parametrize(
    "run",
    [
        "# by hand\n" + RUN,
        RUN.replace(" t\n", " my run, second try\n"),
        RUN.replace("\n", "\r\n"),
        RUN.replace("\n", "\r"),
        "\ufeff" + RUN,
        "qid Q0 docno rank score tag\n" + RUN,
        "query_id iter doc_id rank sim run_id\n" + RUN,
        gzip.compress(RUN.encode(), mtime=0),
    ],
    ids=["comment", "text after the tag", "CR LF", "CR", "byte order mark", "header", "header with other names", "gzip"],
)
def test_runs_that_others_write(tmp_path, run):
    (tmp_path / "run").write_bytes(run if isinstance(run, bytes) else run.encode())
    assert read_run(tmp_path / "run") == READ


@pytest.mark.parametrize(
    "qrels",
    [
        "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\n",
        "corpus-id query-id score\na q1 2\nb q1 0\n",
        "q1 0 a 2.0\nq1 0 b 0.000\n",
        "q1 0 a 2\nq1 0 b -1\nq1 0 a 2\n",
        "# judged by hand\nq1 0 a 2\nq1 0 b false\n",
        gzip.compress(b"q1 0 a 2\nq1 0 b 0\n", mtime=0),
    ],
    ids=["BEIR", "other order", "decimal points", "the same again", "words", "gzip"],
)
def test_judgements_that_others_write(tmp_path, qrels):
    (tmp_path / "qrels").write_bytes(qrels if isinstance(qrels, bytes) else qrels.encode())
    assert read_judgements(tmp_path / "qrels") == {"q1": {"a": 2, "b": 0}}


def test_ids_keep_number_signs_and_no_break_spaces(tmp_path):
    (tmp_path / "qrels").write_text("q#1 0 red\u00a0shoe 1\n")
    assert read_judgements(tmp_path / "qrels") == {"q#1": {"red\u00a0shoe": 1}}


def test_ids_between_tabs_may_have_blanks(tmp_path):
    """Of a run, the second word of an id was taken for the rank, and the rank for the score."""
    (tmp_path / "run").write_text("red shoe\tQ0\ta  b\t1\t3.5\tmy run\n")
    assert read_run(tmp_path / "run") == {"red shoe": {"a  b": 3.5}}
    (tmp_path / "qrels").write_text("query-id\tcorpus-id\tscore\nred shoe\ta  b\t2\nred  shoe\ta b \t1\n")
    assert read_judgements(tmp_path / "qrels") == {"red shoe": {"a  b": 2}, "red  shoe": {"a b": 1}}


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (b"q1 0 a 1\nq1 0 b 0\nq1 0 a 2\n", "qrels, line 3: document a of query q1 is judged twice, 1 before and 2 here"),
        (b"q1 0 a 1\nq1 0 caf\xe9 1\n", r"qrels, line 2: b'caf\\xe9' is not UTF-8"),
        (b"q1 0 a 1 .5\n", "line 1: 5 columns"),
        (b"q1 a 1\n", "line 1: 3 columns"),
        (b"q1 0 a inf\n", "line 1: the grade 'inf'"),
        (gzip.compress(b"q1 0 a 1\n" * 2000, mtime=0)[:30], "the compressed data are damaged"),
    ],
)
def test_judgements_that_are_refused(tmp_path, qrels, message):
    (tmp_path / "qrels").write_bytes(qrels)
    with pytest.raises(ValueError, match=message):
        read_judgements(tmp_path / "qrels")


def test_scores_that_ascend_with_the_rank_are_distances_or_reported(tmp_path):
    (tmp_path / "near").write_text("q Q0 a 1 0.25 t\nq Q0 b 2 0.5 t\nq Q0 c 3 0.75 t\n")
    with pytest.warns(UserWarning, match="near: the scores ascend with the rank, so they are taken for distances"):
        assert list(read_run(tmp_path / "near", by_rank=True)["q"].items()) == [("a", -0.25), ("b", -0.5), ("c", -0.75)]
    with pytest.warns(
        UserWarning, match="near: the scores ascend with the rank. Larger scores count as better, as in trec_eval"
    ):
        assert list(read_run(tmp_path / "near")["q"]) == ["c", "b", "a"]


def test_ranks_that_contradict_some_scores_are_reported(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 1 3 t\nq Q0 b 2 5 t\nq Q0 c 3 1 t\nr Q0 a 1 3 t\n")
    with pytest.warns(UserWarning, match="in 1 of 2 lists the ranks say another order than the scores; the scores count"):
        assert list(read_run(tmp_path / "run")["q"]) == ["b", "a", "c"]


def test_equal_scores_by_rank(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 1 1 t\nq Q0 b 2 1 t\nq Q0 c 3 1 t\n")
    with pytest.warns(UserWarning, match="all scores are equal; the documents are ordered by rank"):
        assert list(read_run(tmp_path / "run", by_rank=True)["q"]) == ["a", "b", "c"]


def test_judged_queries_that_found_nothing_count_if_asked(tmp_path):
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 z 1\n")
    with pytest.warns(UserWarning, match="1 that are judged but not in it, counted as queries that found nothing"):
        assert list(judged_rankings(tmp_path / "run", tmp_path / "qrels", complete=True))[1] == ({"z": 1}, {"z": -np.inf})
