"""What exports leave out: the weights of levels without a column."""

import unicodedata

import numpy as np

from online_rank.base import serving_ranker
from online_rank.query.words import keys_of


def exported_scores(model, documents):
    """The scores of a model, without the weights of brands that have no column."""
    scores = np.array(model.predict_one(documents))
    own = {name[2] for name in model.feature_names if isinstance(name, tuple)}
    brands = [unicodedata.normalize("NFC", x.get("brand") or "").strip() for x in documents]
    keys = keys_of(["brand="], [["" if brand in own else brand for brand in brands]])
    words = getattr(serving_ranker(model), "_words", None)
    return scores if words is None else scores - words.weights_of(keys)
