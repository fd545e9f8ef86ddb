"""The example of a LangChain retriever."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("pydantic")

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "langchain" / "online_rank_langchain.py"


class Listed(BaseRetriever):
    texts: list[str]

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=text) for text in self.texts]


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("online_rank_langchain", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LISTS = {"one": Listed(texts=["a", "b", "c", "d"]), "two": Listed(texts=["d", "e", "b"])}


def made(example, **options):
    return example.LearnedEnsembleRetriever(retrievers=LISTS, **options)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [1.0, 3.0], [2.0, 0.5]])
def test_it_begins_as_the_ensemble_retriever(example, weights):
    classic = pytest.importorskip("langchain_classic.retrievers")
    theirs = classic.EnsembleRetriever(retrievers=[*LISTS.values()], weights=weights)
    ours = made(example, weights=weights)
    assert [d.page_content for d in ours.invoke("q")] == [d.page_content for d in theirs.invoke("q")]


def test_thumbs_teach_it(example, tmp_path):
    retriever = made(example, k=3)
    assert [d.page_content for d in retriever.invoke("q")] == ["d", "b", "a"]
    for _ in range(40):
        retriever.feedback("q", {"d": False, "e": True})
    assert retriever.invoke("q")[0].page_content == "e"
    retriever.save(str(tmp_path / "fusion.npz"))
    again = made(example, k=3)
    again.load(str(tmp_path / "fusion.npz"))
    assert again.invoke("q") == retriever.invoke("q")


def test_feedback_on_what_was_not_answered_is_refused(example):
    retriever = made(example, remembered=1)
    with pytest.raises(KeyError, match="never asked"):
        retriever.feedback("never asked", {"d": True})
    retriever.invoke("first")
    retriever.invoke("second")
    with pytest.raises(KeyError, match="first"):
        retriever.feedback("first", {"d": True})
    with pytest.raises(KeyError, match="'z' is not in the answer to 'second'"):
        retriever.feedback("second", {"z": True})
