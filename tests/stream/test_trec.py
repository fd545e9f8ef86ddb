import pytest

from online_rank.stream.trec import judged_rankings, read_judgements, read_run


def test_a_run_is_ordered_by_score_then_by_id_backwards(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 1 0.25 t\nq Q0 c 2 0.5 t\n\nq Q0 b 3 0.25 t\nr Q0 a 1 1e-3 t\n")
    assert {qid: list(scores) for qid, scores in read_run(tmp_path / "run").items()} == {"q": ["c", "b", "a"], "r": ["a"]}


def test_scores_are_compared_in_single_precision(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 1 1.00000001 t\nq Q0 b 2 1.0 t\n")
    assert list(read_run(tmp_path / "run")["q"]) == ["b", "a"]


def test_only_judged_queries_count(tmp_path):
    (tmp_path / "run").write_text("q Q0 a 1 2 t\nr Q0 a 1 2 t\n")
    (tmp_path / "qrels").write_text("q 0 a -1\nq 0 z 2\ns 0 a 1\n")
    with pytest.warns(UserWarning, match=r"are measured: 1; left out: 1 of .*run that are not judged, 1 that"):
        assert list(judged_rankings(tmp_path / "run", tmp_path / "qrels")) == [
            ({"a": 0, "z": 2}, {"a": 0.0, "z": float("-inf")})
        ]


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ("r 0 a 1\n", "no query of .*run is judged in .*qrels: the first is 'q' there, 'r' here"),
        ("", "no query of"),
        ("q 0 z 2\n", "no retrieved document of .*run is judged in .*qrels"),
    ],
)
def test_files_that_have_nothing_in_common_are_refused(tmp_path, qrels, message):
    """They were measured, and every figure was 0."""
    (tmp_path / "run").write_text("q Q0 a 1 2 t\n")
    (tmp_path / "qrels").write_text(qrels)
    with pytest.raises(ValueError, match=message):
        list(judged_rankings(tmp_path / "run", tmp_path / "qrels"))


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read_run, "q Q0 a 1 2\n", r"line 1: 5 columns, not 'qid Q0 docid rank score tag'"),
        (read_run, "q Q0 a 1 2 t\nq Q0 a 2 1 t\n", "line 2: document a of query q occurs twice"),
        (read_run, "q Q0 a 1 high t\n", "line 1: the score 'high' is not a finite number"),
        (read_run, "q Q0 a 1 nan t\n", "line 1: the score 'nan'"),
        (read_judgements, "q 0 a\n", "line 1: 3 columns"),
        (read_judgements, "q 0 a 1\nq 0 b 1.5\n", "line 2: the grade '1.5' is not an integer"),
    ],
)
def test_bad_lines_are_named(tmp_path, reader, text, message):
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=message):
        reader(tmp_path / "file")
