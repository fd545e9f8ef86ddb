"""Columns of click logs that are recognised by common names, where nobody has named them."""

import re
from collections.abc import Collection, Iterable

#: The common names of the column of each role, the likeliest first; how words are joined, and capitals, make no difference.
COMMON = {
    "query": ("query", "query_id", "qid", "list", "list_id", "request_id", "request", "search_id", "serp_id", "impression_id",
              "session_id", "session"),
    "document": ("document", "document_id", "doc_id", "doc", "item_id", "item", "product_id", "product", "sku", "asin",
                 "job_id", "job", "listing_id", "article_id", "video_id", "ad_id", "url"),
    "position": ("position", "pos", "rank", "place", "slot", "item_position", "display_position"),
    "click": ("click", "clicked", "is_click", "is_clicked", "was_clicked", "event", "event_type", "action", "action_name"),
    "propensity": ("propensity", "propensity_score", "probability", "prob", "pscore"),
}  # fmt: skip
_JOINTS = re.compile(r"[\s_.-]+")


def recognised(columns: Iterable[str], role: str, taken: Collection[str]) -> str | None:
    """The column with the likeliest common name of a role, among those that are not taken; None without one.

    Examples
    --------
    >>> recognised(["jobId", "rank", "pos", "clicked"], "position", taken=())
    'pos'
    >>> recognised(["jobId", "rank", "pos", "clicked"], "document", taken=())
    'jobId'
    """
    there: dict[str, str] = {}
    for column in columns:
        if column not in taken:
            there.setdefault(_JOINTS.sub("", column).lower(), column)
    return next((there[name] for name in (_JOINTS.sub("", name) for name in COMMON[role]) if name in there), None)
