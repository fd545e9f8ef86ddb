"""A LangChain retriever that learns from thumbs up and down how to fuse others."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from online_rank import Runs, hybrid, load, save


class LearnedEnsembleRetriever(BaseRetriever):
    """Begins as `EnsembleRetriever` (weighted reciprocal rank fusion), and computes how far it can be behind it.

    `feedback` teaches it; `save` and `load` keep what was learned.
    """

    retrievers: dict[str, Any]
    weights: Sequence[float] | None = None
    c: float = 60.0
    k: int = 10
    remembered: int = 1000
    _model: Any = PrivateAttr(default=None)
    _asked: dict[str, Runs] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any) -> None:
        self._model = hybrid([*self.retrievers], today="rrf", weights=self.weights, k=self.c)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        found: dict[str, Document] = {}
        lists: dict[Any, Any] = {}
        for name, retriever in self.retrievers.items():
            documents = {self.key(d): d for d in retriever.invoke(query)}
            found |= documents
            # Retrievers give the order alone.
            lists[name] = [(key, -float(place)) for place, key in enumerate(documents)]
        self._asked[query] = Runs(lists)
        for oldest in [*self._asked][: -self.remembered]:
            del self._asked[oldest]
        return [found[key] for key in self._model.rank_one(self._asked[query])[: self.k]]

    def feedback(self, query: str, thumbs: dict[str, bool]) -> None:
        """Learn from `{key of a document: thumb is up}`; documents without a thumb stand between. KeyError for others."""
        asked = self._asked[query]
        if unknown := [key for key in thumbs if key not in asked.documents]:
            raise KeyError(f"{unknown[0]!r} is not in the answer to {query!r}")
        self._model.learn_one(asked, {key: 2 * thumbs[key] if key in thumbs else 1 for key in asked.ids})

    def save(self, path: str) -> None:
        save(self._model, path)

    def load(self, path: str) -> None:
        self._model = load(path)

    @staticmethod
    def key(document: Document) -> str:
        """What identifies a document: its id, or its text, as in `EnsembleRetriever`."""
        return document.id or document.page_content
