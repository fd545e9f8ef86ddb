"""Figures of runs equal trec_eval's, by pytrec_eval, however the files are written."""

import gzip
import warnings

import numpy as np
import pytest

from online_rank.metrics import metric
from online_rank.stream.trec import judged_rankings

#: Our names of measures, and trec_eval's.
MEASURES = {
    "map": "map",
    "map@5": "map_cut_5",
    "mrr": "recip_rank",
    "p@5": "P_5",
    "recall@5": "recall_5",
    "hit_rate@5": "success_5",
    "ndcg_linear": "ndcg",
    "ndcg_linear@5": "ndcg_cut_5",
}
IDS = ("d{}", "d#{}", "clé{}", "red\N{NO-BREAK SPACE}shoe{}", "D{}/x", "%20{}", "cle\u0301{}")
GRADES = {
    -1: ("-1", "-1.0"),
    0: ("0", "0.000", "false"),
    1: ("1", "1.0", "true"),
    2: ("2", "2.0", "+2"),
    100: ("100", "100.000"),
}


def _drawn(draw):
    """Judgements and scores by query and document, and the ranks that a run states."""
    of_tabs = draw.random() < 0.3
    ids = (*IDS, "red  shoe {}") if of_tabs else IDS
    documents = [ids[draw.integers(len(ids))].format(n) for n in range(30)]
    qrels, run, ranks = {}, {}, {}
    for n in range(12):
        qid = ids[draw.integers(len(ids))].format(f"q{n}")
        if n < 2 or draw.random() < 0.8:
            judged = draw.choice(30, draw.integers(1, 12), replace=False)
            grades = draw.choice(list(GRADES), len(judged), p=[0.2, 0.3, 0.3, 0.15, 0.05])
            grades[0] = max(grades[0], 0)  # trec_eval does not come to an end if all grades of a query are below 0.
            qrels[qid] = {documents[d]: int(grade) for d, grade in zip(judged, grades, strict=True)}
        if n < 2 or draw.random() < 0.8:
            found = draw.choice(30, draw.integers(1, 25), replace=False)
            run[qid] = {documents[d]: round(float(draw.normal()), int(draw.integers(1, 9))) for d in found}
            best_first = sorted(run[qid].values(), reverse=True)
            ranks[qid] = {docid: best_first.index(score) + 1 for docid, score in run[qid].items()}
            if n == 1 and len(set(best_first)) > 1:  # Two that contradict the scores.
                best, worst = (pick(run[qid], key=run[qid].get) for pick in (max, min))
                ranks[qid][best], ranks[qid][worst] = ranks[qid][worst], ranks[qid][best]
    return qrels, run, ranks, of_tabs


def _written(draw, path, rows, header, of_tabs):
    """A file as others write it: any blanks and line ends, comments, a header, a byte order mark, compressed or not."""
    lines = ["\t".join(row) if of_tabs else " \t "[draw.integers(2) :: 2].join(row) for row in rows]
    lines.insert(draw.integers(len(lines) + 1), "# a comment of some words, q1 0 d1 7")
    if draw.random() < 0.5:
        lines.insert(0, header)
    end = ("\n", "\r\n", "\r")[draw.integers(3)]
    text = ("\ufeff" if draw.random() < 0.3 else "") + end.join(lines) + end * int(draw.integers(3))
    data = text.encode()
    path.write_bytes(gzip.compress(data) if draw.random() < 0.3 else data)


def _files(draw, folder, qrels, run, ranks, of_tabs):
    judged = [
        (qid, "0", docid, str(draw.choice(GRADES[grade])))
        for qid, grades in qrels.items()
        for docid, grade in grades.items()
        for _ in range(1 + (draw.random() < 0.1))
    ]
    listed = [
        (
            qid,
            "Q0",
            docid,
            str(ranks[qid][docid]),
            repr(score),
            str(draw.choice(["tag", "my run, second try", "t\N{NO-BREAK SPACE}1"])),
        )
        for qid, scores in run.items()
        for docid, score in scores.items()
    ]
    _written(draw, folder / "qrels", judged, "query-id 0 corpus-id score".replace(" ", "\t"), of_tabs)
    _written(draw, folder / "run", listed, "qid Q0 docno rank score tag", of_tabs)


def _means(per_query, queries):
    return {
        ours: sum(per_query[qid][theirs] for qid in queries if qid in per_query) / len(queries)
        for ours, theirs in MEASURES.items()
    }


@pytest.mark.first(17)
@pytest.mark.parametrize("seed", range(50))
def test_figures_of_trec_eval(tmp_path, seed):
    import pytrec_eval

    draw = np.random.default_rng(seed)
    qrels, run, ranks, of_tabs = _drawn(draw)
    _files(draw, tmp_path, qrels, run, ranks, of_tabs)
    per_query = pytrec_eval.RelevanceEvaluator(qrels, {name.replace("_5", ".5") for name in MEASURES.values()}).evaluate(run)
    for complete in (False, True):
        metrics = {name: metric(name, no_relevant="zero") for name in MEASURES}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for grades, scores in judged_rankings(tmp_path / "run", tmp_path / "qrels", complete=complete):
                for each in metrics.values():
                    each.update(grades, scores)
        means = _means(per_query, [*qrels] if complete else [qid for qid in run if qid in qrels])
        assert {name: each.get() for name, each in metrics.items()} == pytest.approx(means, abs=1e-12)
        contradicting = sum(
            any(ranks[qid][a] < ranks[qid][b] and scores[a] < scores[b] for a in scores for b in scores)
            for qid, scores in run.items()
        )
        assert any(f"in {contradicting} of {len(run)} lists the ranks" in str(each.message) for each in told) == bool(
            contradicting
        )
