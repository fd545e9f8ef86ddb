"""Of every result: its seeds, about how long it takes, and which command makes its figures again, or why none does."""

from typing import NamedTuple

__all__ = ["CATALOGUE", "Entry", "entry", "since"]


class Entry(NamedTuple):
    """What a page cannot say of itself."""

    title: str
    """How the headings begin that this speaks of."""
    seeds: str
    takes: str = ""
    """About how long the command takes on two cores, until the page says it."""
    by: str | None = None
    """A command that makes some of the rows again, in less time; None: the section's own makes all."""
    reason: str = ""
    """Why the figures are not made again, or not those that `by` leaves out."""
    times: bool = False
    """Whether all figures are times or follow from times, except figures of ranking quality."""


_NO_SEED = "none, nothing is drawn"
_FILES = "none, queries come in the order of the files"
_STATEMENTS = Entry(
    "", "0 to the number of streams, after the number of the section", "40 minutes", reason="40 minutes of streams"
)
_AS_SERVED = Entry("", _FILES, "40 minutes")

CATALOGUE: dict[str, list[Entry]] = {
    "additive": [Entry("", "0 to 4", "5 minutes")],
    "bounds": [
        Entry("Theorem 5", _NO_SEED),
        Entry("A stream on which", _NO_SEED),
        Entry(
            "Separable",
            "documents + queries + features of a stream",
            "30 minutes",
            reason="half an hour, up to 10,000 documents",
        ),
        Entry("MQ2008, features", _FILES, "30 minutes", by="benchmarks.bounds file"),
        Entry("Every theorem", "0 to the number of streams", "30 minutes", reason="half an hour of streams"),
        Entry("Intervals of", "the number of the law", "10 minutes", reason="ten minutes of runs"),
        Entry("MQ2008, one pass", _FILES),
        Entry("The batch estimator", "the documents, queries and repetition"),
        _STATEMENTS._replace(title="What certificates say without"),
        _STATEMENTS._replace(title="What blends serve"),
        _STATEMENTS._replace(title="What an `AdditiveRanker` serves"),
        Entry("What curves with trees serve", "0 to the number of streams", "4 minutes"),
        Entry("What is known before a run", "0, the first order of the files", "1 minute"),
        Entry("Why no regret", "0 and 1", "3 minutes"),
        _AS_SERVED._replace(title="What certificates say of", by="benchmarks.bounds tightness"),
        _AS_SERVED._replace(title="Two rankers that disagree", by="benchmarks.bounds counterexample_of_blends"),
        _AS_SERVED._replace(title="Paired intervals on", by="benchmarks.bounds pairs"),
        Entry("", "0 to the number of streams", "5 minutes"),
    ],
    "calls": [Entry("", "1", "1 minute")],
    "click_logs": [
        Entry(
            "",
            "1 and on, 7 for positions; settings of ours were chosen on 0",
            "4 hours",
            by="benchmarks.click_logs --seeds 1",
            reason="hours of logs and settings",
        )
    ],
    "clicks": [
        Entry("Compared with PDGD", "10 to 29", "5 hours", reason="hours of simulated users"),
        Entry(
            "Peers", "10 and on", reason="the nine minutes of processor time of a sixth of the campaign, most of them of COLTR"
        ),
        Entry("Position bias", "10 to 13"),
        Entry("", _NO_SEED),
    ],
    "default": [
        Entry(
            "",
            "orders 0 and 1, streams 100 and 101",
            "40 minutes",
            by="benchmarks.default --streams linear text",
            reason="40 minutes, most of it boosted trees",
        )
    ],
    "default_cost": [Entry("", "3", "3 minutes", times=True)],
    "direct_quality": [Entry("", "0, orders as many as passes", "10 minutes")],
    "direct_ranker": [
        Entry("Sensitivity", "the number of the world", "30 minutes", reason="half an hour of networks"),
        Entry("", "the number of the world, or of the order"),
    ],
    "distributed": [Entry("", "0 to 4", "2 minutes")],
    "distributed_cost": [Entry("", "the number of the file", "20 minutes", times=True)],
    "distributed_mq2008": [Entry("", "orders 0 to 9", "10 minutes")],
    "packages": [Entry("", _NO_SEED, "1 minute")],
    "drift": [Entry("", "0 to 2", "4 minutes")],
    "exploring": [
        Entry("", "73, 1 for few documents", "1 minute"),
    ],
    "exports": [
        Entry("What a query takes", "0", "2 minutes", times=True),
        Entry("Held-out queries", "0 to learn, 1 held out", "20 minutes", reason="20 minutes of engines"),
        Entry("What a model takes", "0", "10 minutes", times=True),
        Entry(
            "",
            _FILES,
            "40 minutes",
            by="benchmarks.exports --part models --minutes 1",
            reason="40 minutes; the first models are made again",
        ),
    ],
    "history": [Entry("", "0 to 4; nothing was chosen on them", "5 minutes")],
    "hybrid": [
        Entry("Strength of the beginning", "0 and on", "20 minutes", reason="20 minutes of streams"),
        Entry("Lists in random order", "0 and on; of users 50 and on", "30 minutes", reason="half an hour of logs"),
        Entry("Which rule", "10 to 15", "3 minutes"),
        Entry("", "orders and streams from 0", "10 minutes"),
    ],
    "interactions": [
        Entry("Processor time", "0", "3 minutes", times=True),
        Entry("Size", "0", "2 minutes", times=True),
        Entry(
            "",
            "from 40 on; 100 and on for what is chosen",
            "2 hours",
            by="benchmarks.interactions --part hostile",
            reason="hours, most of them of another checkout's blend, and another checkout is needed",
        ),
    ],
    "judgements": [
        Entry("", "0 to 4", "20 minutes", by="benchmarks.judgements --users ubm --seeds 1", reason="20 minutes of logs")
    ],
    "learners": [
        Entry("Several learners of one stream, simulated: curves", "0 and 1", "1 hour", reason="an hour of models"),
        Entry("Several learners of one stream, simulated: default", "0", "1 hour", reason="an hour of models"),
        Entry("Two learners", "0 to 2", "30 minutes", times=True),
        Entry("What an exchange", "0", "1 minute", times=True),
    ],
    "live": [
        Entry(
            "", "0 to 4", "1 hour", by="benchmarks.live --part shop --seeds 1 --lists 1000", reason="an hour of simulated users"
        )
    ],
    "log": [Entry("", "0", "10 minutes", times=True)],
    "own_measures": [
        Entry("", "1 to 4; seeds of streams are 100 more, of files they order the queries", "20 minutes", reason="20 minutes")
    ],
    "missing": [Entry("", "0 to 4", "2 minutes")],
    "nightly": [Entry("", "1 to 3", "7 minutes", reason="7 minutes, most of it boosted trees, night by night")],
    "online_peers": [Entry("", "orders 0 to 4, which draw the pairs too", "3 minutes")],
    "portable": [Entry("", "1", "20 minutes", reason="it needs kernels of three targets and a Python for aarch64")],
    "quality": [Entry("", "orders 0 to 4", "3 minutes")],
    "serving": [Entry("", "0", "1 hour", times=True)],
    "signs": [Entry("", "0 to 39", "2 minutes")],
    "sparse": [
        Entry(
            "",
            "0",
            "1 hour",
            by="benchmarks.sparse --words 1e5 --rounds 1 --only rows",
            reason="an hour, most of it other libraries",
            times=True,
        )
    ],
    "startup": [Entry("", "1", "2 minutes", times=True)],
    "throughput": [Entry("", "0 and on", "30 minutes", reason="half an hour, most of it other libraries", times=True)],
    "promises": [Entry("", "0 to 449", "15 minutes", reason="a quarter of an hour of simulated votes")],
    "stores": [Entry("", "0", "1 minute", times=True)],
    "transformers": [Entry("Time", "0", "5 minutes", times=True), Entry("", _NO_SEED, "1 minute")],
    "words": [
        Entry("Titles", "0 to 4", "3 minutes", by="benchmarks.words --part quality --seeds 1"),
        Entry("Levels", "0 to 4", "3 minutes", by="benchmarks.words --part levels --seeds 1"),
        Entry("100,000", "0", "3 minutes", reason="memory and times of a long stream"),
        Entry("", "0 to 4", "12 minutes", by="benchmarks.words --part levels --seeds 1"),
    ],
    "vectors": [
        Entry("Processor time", "0", "1 minute", times=True),
        Entry("Where the cosine", "0", "1 minute"),
        Entry("Tastes", "0 to 4", "5 minutes"),
        Entry("", "orders 0 to 2; runs 0 to 19", "10 minutes", reason="vectors of two dictionaries are needed"),
    ],
    "year": [Entry("", "1000 + the day, 1 for the world", "2 hours", reason="hours of training, night by night")],
}


class Changed(NamedTuple):
    """A model that was another one before a day."""

    row: str
    day: str
    then: str


CHANGED = (
    Changed("AdditiveRanker()", "2026-11-28", "`AdditiveRanker()` had curves alone then."),
    Changed("PerceptronRanker()", "2026-11-26", "`PerceptronRanker()` was `PerceptronRanker(half_life=None)` then."),
)


def since(tables: str, day: str) -> str:
    """What tables that were measured on a day have to say of their rows: which models were others then."""
    return "".join(f" {each.then}" for each in CHANGED if each.row in tables and day < each.day)


def entry(page: str, title: str) -> Entry:
    """What is known of a section of a page; of a page that is not here, that its command makes it again."""
    return next((found for found in CATALOGUE.get(page, ()) if title.startswith(found.title)), Entry("", ""))
