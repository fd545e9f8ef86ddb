"""Trees in the formats of LightGBM and XGBoost."""

from typing import Any

import numpy as np

from online_rank.base.form import Tree
from online_rank.export.ensembles import as_trees, in_single
from online_rank.export.reading import Names, Prepared, prepared, require_different


def to_lightgbm(model: Any, *, name: str = "online_rank", names: Names = None) -> str:
    """Trees as the text of a LightGBM model, which `lightgbm.Booster(model_str=...)` can rank with, and continue from.

    Curves become trees. NaN is missing, or counts as 0 for a model that takes no missing values; a level of a category is a
    feature that is 0 or 1.

    Parameters
    ----------
    model
        A model of trees, or of curves and trees of single documents.
    name
        Not used.
    names
        Names of the d features, in order, or `{name: other name}` for those that differ. LightGBM does not allow white space in
        them: it is written as _.

    Raises
    ------
    TypeError, ValueError
        The model is not made of trees and curves of raw features, or two names differ only in white space.
    """
    given, trees = _trees(model, "lightgbm", names)
    texts = ["_".join(text.split()) for text in given.texts]
    require_different(given.texts, texts)
    blocks = [_lightgbm_tree(tree, number, given.form.takes_missing) for number, tree in enumerate(trees)]
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    head = [
        "tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0", f"max_feature_idx={len(texts) - 1}",
        "objective=lambdarank", f"feature_names={' '.join(texts)}",
        f"feature_infos={' '.join(['[-1e308:1e308]'] * len(texts))}", f"tree_sizes={sizes}",
    ]  # fmt: skip
    return (
        "\n".join(head)
        + "\n\n"
        + "".join(blocks)
        + "end of trees\n\nparameters:\nend of parameters\n\npandas_categorical:null\n"
    )


def _lightgbm_tree(tree: Tree, number: int, takes_missing: bool) -> str:
    """A tree. Inner nodes and leaves are numbered separately; -1 - k is leaf k. A value <= the threshold goes left."""
    inner = np.flatnonzero(tree.columns >= 0)
    leaves = np.flatnonzero(tree.columns < 0)
    places = np.empty(len(tree.columns), np.int64)
    places[inner], places[leaves] = np.arange(len(inner)), -1 - np.arange(len(leaves))
    # NaN goes left, or counts as 0.
    decision = 10 if takes_missing else 0
    lines = {
        "num_leaves": [len(leaves)],
        "num_cat": [0],
        "split_feature": tree.columns[inner].tolist(),
        "split_gain": [0] * len(inner),
        "threshold": np.nextafter(tree.thresholds[inner], -np.inf).tolist(),
        "decision_type": [decision] * len(inner),
        "left_child": places[tree.left[inner]].tolist(),
        "right_child": places[tree.right[inner]].tolist(),
        "leaf_value": tree.values[leaves].tolist(),
        "leaf_weight": [1] * len(leaves),
        "leaf_count": [1] * len(leaves),
        "internal_value": [0] * len(inner),
        "internal_weight": [0] * len(inner),
        "internal_count": [1] * len(inner),
        "is_linear": [0],
        "shrinkage": [1],
    }
    body = "".join(f"{key}={' '.join(map(repr, values))}\n" for key, values in lines.items())
    return f"Tree={number}\n{body}\n\n"


def to_xgboost(model: Any, *, name: str = "online_rank", names: Names = None) -> dict[str, Any]:
    """Trees as an XGBoost model in JSON: `xgboost.Booster(model_file=...)` ranks with it. It counts in single precision.

    Parameters
    ----------
    model, name, names
        As in `to_lightgbm`.

    Raises
    ------
    TypeError, ValueError
        The model is not made of trees and curves of raw features.
    """
    given, trees = _trees(model, "xgboost", names)
    d = str(len(given.texts))
    booster = {
        "name": "gbtree",
        "model": {
            "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
            "iteration_indptr": list(range(len(trees) + 1)),
            "tree_info": [0] * len(trees),
            "trees": [_xgboost_tree(tree, number, d, given.form.takes_missing) for number, tree in enumerate(trees)],
        },
    }
    params = {"base_score": "0E0", "boost_from_average": "0", "num_class": "0", "num_feature": d, "num_target": "1"}
    learner = {
        "attributes": {},
        "feature_names": given.texts,
        "feature_types": ["float"] * len(given.texts),
        "gradient_booster": booster,
        "learner_model_param": params,
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    return {"learner": learner, "version": [2, 1, 0]}


def _xgboost_tree(tree: Tree, number: int, n_features: str, takes_missing: bool) -> dict[str, Any]:
    """A tree. A value < the condition goes left, and so does NaN, or it counts as 0; a leaf has its value as its condition."""
    thresholds = in_single(tree.thresholds)
    n, inner = len(tree.columns), tree.columns >= 0
    parents = np.full(n, 2**31 - 1)
    for side in (tree.left, tree.right):
        parents[side[inner]] = np.flatnonzero(inner)
    zeros = [0] * n
    return {
        "base_weights": np.where(inner, 0.0, tree.values).tolist(),
        "categories": [], "categories_nodes": [], "categories_segments": [], "categories_sizes": [],
        "default_left": (inner & (takes_missing | (thresholds > 0.0))).astype(int).tolist(),
        "id": number,
        "left_children": np.where(inner, tree.left, -1).tolist(),
        "loss_changes": [0.0] * n,
        "parents": parents.tolist(),
        "right_children": np.where(inner, tree.right, -1).tolist(),
        "split_conditions": np.where(inner, thresholds, tree.values).tolist(),
        "split_indices": np.where(inner, tree.columns, 0).tolist(),
        "split_type": zeros,
        "sum_hessian": [1.0] * n,
        "tree_param": {"num_deleted": "0", "num_feature": n_features, "num_nodes": str(n), "size_leaf_vector": "1"},
    }  # fmt: skip


def _trees(model: Any, to: str, names: Names) -> tuple[Prepared, tuple[Tree, ...]]:
    given = prepared(model, to, names)
    return given, as_trees(given)
