"""The messages of the protocol. Each is one type, from which decoding, its checks, the description and the guide follow.

A request is of the kind whose fields it has (`online_rank.serving.reading`). Kinds of feedback have modules
(`online_rank.serving.kinds`). Answers are dicts of the types below.
"""

import operator
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypedDict

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from online_rank.limits import INT64_HIGH, INT64_LOW, MAX_DIMENSIONS, MAX_DOCUMENTS, MAX_ID_LENGTH
from online_rank.query import Runs
from online_rank.query.columns import Columns
from online_rank.query.grades import MAX_GRADE
from online_rank.serving.plan import FeedbackPlan


def about(text: str) -> Meta:
    """What a field means, for the description and for errors."""
    return Meta(description=text)


Text = Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
Int64 = Annotated[int, Meta(ge=INT64_LOW, le=INT64_HIGH)]
Id = Annotated[Text | Int64, about("identifies one query")]
#: What a feature may be; a model may take fewer types.
_Given = int | float | bool | str | list[str | int | float]
_Feature = _Given | None
DocsWithoutNull = dict[str, dict[str, _Given]]
_Docs = Annotated[
    dict[str, dict[str, _Feature]],
    about("the documents of the query: `{document: {feature: value}}`; null is a missing value"),
    Meta(extra_json_schema={"maxProperties": MAX_DOCUMENTS}),
]
_Features = Annotated[list[str], about("in columns, the names of the features, in the order of the values in rows")]
_Documents = Annotated[
    list[str],
    about("in columns, the documents of the query, in the order of rows"),
    Meta(extra_json_schema={"maxItems": MAX_DOCUMENTS}),
]
_Vectors = Annotated[
    dict[str, Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)]],
    about("in binary, the features that are vectors, `{feature: length}`: each has this number of values in a row"),
]
_Rows = Annotated[
    list[list[_Feature]],
    about("in columns, a list of values for each document; null is a missing value"),
]
_Runs = Annotated[
    dict[str, dict[str, float] | list[tuple[str, float]]],
    about("what retrievers returned, for models that fuse it: `{retriever: {document: score}}` or `... [[document, score]]`"),
]
_Context = Annotated[
    dict[str, Text | Int64 | float | bool | Annotated[list[float], Meta(max_length=MAX_DIMENSIONS)] | None],
    about(
        "what is known of the query itself, for models that look at it (`CrossFeatures`, `History`): `{name: value}`; a list "
        "of numbers is the vector of the query or of its user"
    ),
]
_Explain = Annotated[tuple[str, str], about("two documents: why the first scores higher or lower than the second")]
_Greedy = Annotated[bool, about("true: rank by the scores, draw nothing, expect no feedback")]
_Pinned = Annotated[
    dict[str, str], about('documents that have their place, `{"1": document}`; the others are drawn around them')
]
_Excluded = Annotated[list[str], about("documents that are not shown; they leave before the draw")]
Grade = Annotated[int, Meta(ge=0, le=MAX_GRADE)]
GradesOf = Annotated[dict[str, Grade], about("`{document: grade}` of all documents; of some, with `ungraded` or a window")]
# Versions of msgspec before 0.22 cannot describe one `Literal` of both types.
Ungraded = Annotated[
    Annotated[Literal[0], Meta()] | Literal["skip"], about("0 or `skip`: the other documents have grade 0, or are left out")
]
Time = Annotated[
    float | Annotated[str, Meta(max_length=50)],
    about(
        "the time of the request: seconds since 1970, or milliseconds, microseconds or nanoseconds, as its size tells, or a "
        "text in ISO 8601, in UTC without a zone; without it, the time of its arrival"
    ),
]
#: What is learned at once of messages with grades, and what becomes of other documents. Read without a call in Python.
GIVEN_GRADES = property(operator.attrgetter("grades", "ungraded"))
_Meta = Annotated[Any, about("anything; it is answered as it came, and is never a feature")]
_Cmd = Annotated[Literal["stats", "save"], about("`stats` answers counts and figures, `save` writes a checkpoint")]
_Entry = Annotated[dict[str, str | Int64 | bool], Meta(min_length=1, max_length=1)]


class Message(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request about a query, of any kind."""

    id: Id
    meta: _Meta | UnsetType = UNSET


class Query(Message, kw_only=True):
    """A request with the documents of a query: `docs`, `runs` or both; or in columns, `features`, `documents` and `rows`."""

    docs: _Docs | UnsetType = UNSET
    features: _Features | UnsetType = UNSET
    documents: _Documents | UnsetType = UNSET
    rows: _Rows | UnsetType = UNSET
    vectors: _Vectors | UnsetType = UNSET
    runs: _Runs | UnsetType = UNSET
    context: _Context | UnsetType = UNSET

    @property
    def given(self) -> Mapping[str, dict[str, Any]]:
        """The documents with their features, `{document: {feature: value}}`."""
        if self.rows is UNSET:
            return self.docs or {}
        if not isinstance(self.rows, Columns):  # Once: a message is asked several times, and lists take more than an array.
            self.rows = Columns(self.features, self.documents, self.rows)  # type: ignore[arg-type, assignment]
        return self.rows  # type: ignore[return-value]

    def asked(self) -> Any:
        """The query, `{document: features}` or `Runs`. Raises ValueError for columns that do not fit each other."""
        return self.given if self.runs is UNSET else Runs(self.runs, self.given)  # type: ignore[arg-type]


class Rank(Query, kw_only=True):
    """ranks the documents of a query, which then waits for its feedback"""

    greedy: _Greedy | UnsetType = UNSET
    pinned: _Pinned | UnsetType = UNSET
    excluded: _Excluded | UnsetType = UNSET
    ts: Time | UnsetType = UNSET


class Explain(Query, kw_only=True):
    """says what each feature contributes to the difference between two scores"""

    explain: _Explain


Whose = Annotated[
    Text, about("whose feedback it is: the evidence that one of them gives in a day is limited, and counts once in comparisons")
]


class Teach(Query, kw_only=True):
    """learns a query that somebody else ranked, at once"""

    grades: GradesOf
    ungraded: Ungraded | UnsetType = UNSET
    ts: Time | UnsetType = UNSET
    session: Whose | UnsetType = UNSET
    user: Whose | UnsetType = UNSET

    feedback = GIVEN_GRADES


class Feedback(Message, kw_only=True):
    """Feedback on a ranking: each kind is a module of `online_rank.serving.kinds`."""

    #: A request of this kind.
    example: ClassVar[dict[str, Any]]
    #: Whether it is clicks on a list that was drawn, rather than grades.
    is_clicks: ClassVar[bool] = False

    ts: Time | UnsetType = UNSET
    session: Whose | UnsetType = UNSET
    user: Whose | UnsetType = UNSET

    @property
    def feedback(self) -> tuple[Any, int | str | UnsetType | None]:
        """What is learned at once: `{document: grade}`, or the clicks; and what becomes of other documents, if it says that.

        Raises ValueError if it cannot be learned at once.
        """
        raise NotImplementedError

    def given(self, plan: FeedbackPlan, draws: bool) -> tuple[str, dict[str, float]]:
        """What it gives to documents over a window: the kind under which it is kept, next to others, and `{document: value}`.

        The kind `plan.GRADE` replaces all others.

        Raises ValueError for what the service cannot learn from, which `draws` lists or does not.
        """
        raise NotImplementedError


class Command(Struct, kw_only=True, forbid_unknown_fields=True):
    """answers counts and figures, or writes a checkpoint"""

    cmd: _Cmd


#: The fields of documents in columns, which come together.
IN_COLUMNS = frozenset(("features", "documents", "rows"))
#: The media type of a query in binary, and the first bytes, which JSON never has.
BINARY, BINARY_BEGINS = "application/vnd.online-rank.float32", b"float32\n"
IN_BINARY = (
    "the line float32; the request as JSON on one line, in columns but without rows; the values, row by row, as 32-bit floats, "
    "lowest byte first, NaN for a missing value; a feature with a length in vectors has as many values"
)

#: The example of `Rank` in columns.
COLUMNS = {"id": "q1", "features": ["clicks", "price"], "documents": ["a", "b"], "rows": [[3, 9.5], [1, None]]}


class Elsewhere(Struct, kw_only=True, forbid_unknown_fields=True):
    """a ranking that another process made with the model of this service; its query waits for feedback"""

    request: Annotated[Raw, about("the request to rank it: its id, its documents with their features")]
    scores: Annotated[
        list[float] | str,
        about("of the documents, in the order of the request; or the same as 64-bit floats, lowest byte first, in base64"),
    ]
    draw: (
        Annotated[dict[str, Any], about("the list that was shown, of a model that draws: `Impression.to_dict`")] | UnsetType
    ) = UNSET
    ts: Time | UnsetType = UNSET
    model: Annotated[str, about("which model it was: the ETag of `GET /model`")] = ""


class Forget(Struct, kw_only=True, forbid_unknown_fields=True):
    """what is to be forgotten, in one of the fields or several; names and values are compared as a whole"""

    ids: Annotated[list[Id], about("queries, waiting or learned")] | UnsetType = UNSET
    context: Annotated[_Entry, about("queries with this entry, and features and keys made of it")] | UnsetType = UNSET
    document: Annotated[str, about("queries that have this document, and feedback on it")] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.ids is UNSET and self.context is UNSET and self.document is UNSET:
            raise ValueError("the fields are ids, context and document, one of them or several")

    @property
    def entry(self) -> tuple[str, str] | None:
        """The entry of the context. A number is as good as its text, as in the names of features."""
        return next(((name, str(value)) for name, value in (self.context or {}).items()), None)


class RollBack(Struct, kw_only=True, forbid_unknown_fields=True):
    """which model is to be restored"""

    to: Annotated[str, about("a day whose model is kept; without it, the model before")] | UnsetType = UNSET


class Answered(TypedDict):
    """an answer to a request about a query"""

    id: Id
    meta: NotRequired[_Meta]


class Ranked(Answered):
    """a ranking"""

    ranking: Annotated[list[str], about("best first")]
    scores: Annotated[list[float], about("of the documents in that order")]
    shown: NotRequired[Annotated[int, about("how many of the first documents were drawn to be shown, to learn from clicks")]]
    greedy: NotRequired[Annotated[bool, about("the disk is full: nothing was drawn, and feedback cannot be learned")]]
    missing: NotRequired[Annotated[list[str], about("inputs that the model declares, and the query or some documents lack")]]


class Explanation(TypedDict):
    """why one document scores higher than another"""

    difference: Annotated[float, about("the score of the first document less the score of the second")]
    contributions: Annotated[list[tuple[str, float]], about("of features and of pairs (a x b): they add up to it")]
    exact: Annotated[bool, about("false: shares of a model whose scores are no sum over features, such as trees")]


class Explained(Answered):
    """an explanation"""

    explanation: Explanation


class Learned(Answered):
    """what became of feedback"""

    learned: bool
    loss: NotRequired[Annotated[float, about("of the ranking that was served")]]
    duplicate: NotRequired[Annotated[bool, about("it was learned before")]]
    displayed: NotRequired[Annotated[bool, about("the list was changed, and this model learns from drawn lists alone")]]
    limited: NotRequired[Annotated[bool, about("its session or user has given as much evidence today as counts")]]
    late: NotRequired[Annotated[bool, about("other feedback was learned before, or a challenge has ended")]]


class Accepted(Answered):
    """what became of feedback that is learned when its window ends"""

    accepted: bool
    early: NotRequired[Annotated[bool, about("its query has not come yet")]]
    limited: NotRequired[Annotated[bool, about("its session or user has given as much evidence today as counts")]]
    late: NotRequired[Annotated[bool, about("its window has ended: not learned")]]


class Done(TypedDict):
    """what a command did"""

    stats: NotRequired[dict[str, Any]]
    saved: NotRequired[bool]


class Refused(TypedDict):
    """a ranking that cannot wait here"""

    id: Id | None
    error: str


class Taken(TypedDict):
    """how many rankings wait for their feedback now"""

    ranked: int
    refused: list[Refused]


class Found(TypedDict):
    """how much was forgotten"""

    waiting: Annotated[int, about("queries that waited for feedback")]
    early: Annotated[int, about("queries with feedback that had not come yet")]
    learned: Annotated[int, about("ids that were remembered as learned")]
    features: Annotated[int, about("features that lost their names")]


class Forgotten(TypedDict):
    """what was forgotten"""

    forgotten: Found
    note: NotRequired[Literal["nothing found"]]


class Stats(TypedDict):
    """counts and figures"""

    stats: Annotated[dict[str, Any], about("since the first start of the service")]
    served: Annotated[dict[str, Any], about("mean and interval of the measure that it names, over served rankings")]
    drifts: Annotated[list[int], about("after how many rankings the loss rose")]
    inputs: Annotated[dict[str, Any], about("unknown and missing features, and how far values have drifted, by a sample")]
    journal_bytes: int | None


class Ready(TypedDict):
    """whether all is well"""

    ok: bool
    seconds_ahead: NotRequired[Annotated[float, about("how far stored times lie ahead of the clock, if they do")]]
    remedy: NotRequired[str]
    error: NotRequired[Annotated[str, about("why requests should go elsewhere")]]
    disk_full: NotRequired[Annotated[str, about("why nothing is learned now; rankings continue")]]
    read_only: NotRequired[Annotated[str, about("why the state cannot be opened or written; rankings continue")]]


class Refusal(TypedDict):
    """why a request was refused, or failed"""

    error: str
    request_id: Annotated[str, about("in X-Request-Id, too: the id that the request has, or a new one")]
