"""Rankers as estimators of scikit-learn (extra `sklearn`): for its cross-validation, its searches, joblib and MLflow."""

from typing import Any, Self

import narwhals
import numpy as np
from river.base import Base

from online_rank.support.lazy import MissingExtra

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise MissingExtra('online_rank.sklearn needs scikit-learn: pip install "online_rank[sklearn]"') from None

from online_rank.base import abilities_of, ranker_of
from online_rank.metrics import metric
from online_rank.rankers.additive import AdditiveRanker

__all__ = ["SklearnRanker"]


class SklearnRanker(BaseEstimator):
    """A ranker as an estimator of scikit-learn.

    It learns the queries of a block in their order, once, as `learn_many` does. The rows of X are documents, y has their
    grades, and qid says which rows are a query; without it all rows are one query.

    Searches and cross-validation pass qid on after `sklearn.set_config(enable_metadata_routing=True)`; `groups=qid` keeps a
    query in one fold.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one, of which a copy that has learned nothing learns; None for `AdditiveRanker()`.
        Its settings are parameters too: `model__half_life`; in a pipeline `model__StreamScaler__with_std`.
    measure
        The measure of `score`, by name (`online_rank.metrics.metric`).

    Attributes
    ----------
    model_
        What has learned.
    n_features_in_ : int
        Number of features that `fit` saw.
    feature_names_in_ : ndarray
        Their names, one for each, if X was a data frame with names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> import sklearn
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> from online_rank import AdditiveRanker
    >>> from online_rank.sklearn import SklearnRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(300, 4)), np.repeat(np.arange(30), 10)
    >>> y = np.digitize(X[:, 0] - X[:, 1], [0.0, 1.0])
    >>> SklearnRanker(AdditiveRanker()).fit(X, y, qid=qid).score(X, y, qid=qid) > 0.9
    True
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     search = GridSearchCV(SklearnRanker(AdditiveRanker()), {"model__relative": [True, False]}, cv=GroupKFold(3))
    ...     found = search.fit(X, y, qid=qid, groups=qid).best_score_
    >>> bool(found > 0.8)
    True
    """

    # With metadata routing, qid goes to all of these unless somebody says otherwise.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    __metadata_request__partial_fit = {"qid": True}  # noqa: RUF012
    __metadata_request__predict = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"qid": True}  # noqa: RUF012

    def __init__(self, model: Any = None, *, measure: str = "ndcg@10") -> None:
        self.model = model
        self.measure = measure

    def fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Learn queries with a new copy of the model.

        Parameters
        ----------
        X
            Features of n documents: an (n, d) array, a scipy matrix or a data frame, also with text if the model takes it.
        y
            The n grades, integers >= 0.
        qid
            The n query ids; documents of a query must be contiguous. None: all documents are one query.

        Returns
        -------
        The estimator.

        Raises
        ------
        TypeError, ValueError
            Bad input, or the model is no ranker. It has then learned nothing.
        """
        return self._learned(X, y, qid, self._new_model(), reset=True)

    def partial_fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Learn further queries; the copy that `fit` made continues. Parameters, errors and result are as for `fit`."""
        is_new = not self.__sklearn_is_fitted__()
        return self._learned(X, y, qid, self._new_model() if is_new else self.model_, reset=is_new)

    def predict(self, X: Any, qid: Any = None) -> np.ndarray:
        """The scores of n documents, float64 (n,), higher ones rank earlier; parameters as for `fit`."""
        check_is_fitted(self)
        scores: np.ndarray = self.model_.predict_many(self._read(X, self.model_, reset=False), _in_order(qid))
        return scores

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """The mean of the measure over queries; parameters as for `fit`.

        Raises
        ------
        ValueError
            Bad input, or `fit` had query ids and here are none.
        """
        scores = self.predict(X, qid)
        if qid is None:
            if self.has_qid_:
                raise ValueError(
                    "score needs qid, as fit had it: pass it, and in a search or cross-validation call "
                    "sklearn.set_config(enable_metadata_routing=True) first"
                )
            qid = np.zeros(len(scores), dtype=np.int64)
        mean: Any = metric(self.measure)
        mean.update_many(column_or_1d(y), scores, _in_order(qid))
        return float(mean.get())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also the model's parameters, behind `model__`."""
        params: dict[str, Any] = super().get_params(deep=False)
        # What is no model is refused by `fit`, as scikit-learn wants it.
        return params | (_flat("model", self.model._get_params()) if deep and isinstance(self.model, Base) else {})

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `model__NAME` sets one in a new copy of the model. Raises ValueError for unknown names."""
        own = {name: value for name, value in params.items() if not name.startswith("model__")}
        super().set_params(**own)
        known = self.get_params()
        nested: dict[str, Any] = {}
        for name in params.keys() - own.keys():
            if name not in known:
                there = ", ".join(sorted(each for each in known if each.startswith("model__"))) or "none"
                raise ValueError(f"{name!r} is no parameter of the model; there are {there}")
            *steps, last = name.split("__")[1:]
            inside = nested
            for step in steps:
                inside = inside.setdefault(step, {})
            inside[last] = params[name]
        if nested:
            self.model = self.model.clone(nested)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags, able = super().__sklearn_tags__(), abilities_of(AdditiveRanker() if self.model is None else self.model)
        tags.target_tags.required = tags.target_tags.positive_only = True
        tags.input_tags.allow_nan = able.takes_missing
        tags.input_tags.sparse = able.takes_sparse
        tags.non_deterministic = False
        return tags

    def _new_model(self) -> Any:
        if self.model is None:
            return AdditiveRanker()
        ranker_of(self.model)
        return self.model.clone()

    def _learned(self, X: Any, y: Any, qid: Any, model: Any, reset: bool) -> Self:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: the grades of the documents")
        X, y = self._read(X, model, reset), column_or_1d(y)
        check_consistent_length(X, y)
        model.learn_many(X, y, np.zeros(len(y), dtype=np.int64) if qid is None else _in_order(qid))
        self.model_ = model
        self.has_qid_ = qid is not None
        return self

    def _read(self, X: Any, model: Any, reset: bool) -> Any:
        """Documents as scikit-learn checks them; the model reads data frames itself."""
        if narwhals.dependencies.is_into_dataframe(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        able = abilities_of(model)
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            accept_sparse="csr" if able.takes_sparse else False,
            ensure_all_finite="allow-nan" if able.takes_missing else True,
        )


def _in_order(qid: Any) -> Any:
    """Query ids in their order: scikit-learn does not look at the labels of pandas."""
    return qid.to_numpy() if hasattr(qid, "to_numpy") else qid


def _flat(prefix: str, params: dict[str, Any]) -> dict[str, Any]:
    """The settings of a model; the settings of each step of a pipeline begin with the name of the step."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        found |= _flat(f"{prefix}__{name}", value) if isinstance(value, dict) else {f"{prefix}__{name}": value}
    return found
