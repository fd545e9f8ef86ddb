"""Clicks: a ranker that shows lists and learns from clicks, and what the clicks reveal."""

from online_rank import PlackettLuce, PositionBias, StreamQuantileMap, SwapRanker
from online_rank.metrics import NDCG, TeamDraft
from online_rank.stream.clicks import user
from online_rank.stream.synth import NoisyTeacher
from online_rank.support.progress import progress
from online_rank.walkthrough._say import course, heading, say, show

_N, _ASKED, _K, _WINDOW = 4000, 2000, 10, 100
_EXAMPLE = {
    "guide": {"fresh": 0.2, "length": 9.0},
    "news": {"fresh": 1.0, "length": 2.0},
    "shop": {"fresh": 0.6, "length": 1.0},
    "forum": {"fresh": 0.4, "length": 6.0},
}


def run() -> None:
    """Show rankings, learn from clicks, measure position bias, compare two rankers on live clicks."""
    heading("One impression")
    say("""`rank_one` returns the model's best ranking. `show_one` draws one: randomness makes clicks comparable. The result is
        an Impression, which holds the documents shown and the data needed for learning, so keep it until the clicks arrive.""")
    small = SwapRanker(PlackettLuce(k=3, seed=2))
    shown = small.show_one(_EXAMPLE)
    show(f"shown = model.show_one(query)              -> {', '.join(map(str, shown.order))}")
    clicked = shown.order[1]
    small.learn_one(_EXAMPLE, shown.clicked([clicked]))
    show(f"model.learn_one(query, shown.clicked([{clicked!r}]))")
    show(f"model.rank_one(query)                      -> {', '.join(map(str, small.rank_one(_EXAMPLE)))}")
    say("""An empty list says that the user looked and clicked nothing; `{"guide": 0.7}` says how much a click was worth. A pair
        of documents is weighted by the probability of the opposite order, so that a document at the top has no advantage.""")

    heading(f"{_N:,} queries, and users who look at the top")
    queries = list(NoisyTeacher(_N + _ASKED, n_features=20, n_documents=(10, 40), seed=3))
    model, who, bias = (
        StreamQuantileMap() | SwapRanker(PlackettLuce(_K, seed=1)),
        user("position", max_grade=4, seed=5),
        PositionBias(_K),
    )
    beginner = StreamQuantileMap() | SwapRanker(PlackettLuce(_K, seed=1))
    seen = [NDCG(k=_K)]
    with progress("learning", _N, "queries") as met:
        for t, (X, y) in enumerate(queries[:_N]):
            if t and t % _WINDOW == 0:
                seen.append(NDCG(k=_K))
            seen[-1].update(y, model.predict_one(X))
            clicks = who.clicks(model.show_one(X), y, t)
            bias.update(clicks)
            model.learn_one(X, clicks)
            if t < 50:
                beginner.learn_one(X, clicks)
            met(t + 1)
    values = [window.get() for window in seen]
    show(f"NDCG@10 {course(values, min(values), max(values))}  {values[0]:.3f} -> {values[-1]:.3f}")
    say(f"Each bar is {_WINDOW} queries, ranked before they were learned. The model has seen no grades.")

    heading("How often is each position examined?")
    low, high = bias.interval()
    show("position   estimate   interval         truth")
    for p, estimate in enumerate(bias.examination):
        show(f"{p + 1:>8}   {estimate:8.2f}   {low[p]:.2f} to {high[p]:.2f}   {1 / (p + 1):9.2f}")
    say("The same random rankings reveal it: exchanged neighbours differ only in their positions.")

    heading("Is it better than after 50 queries? Ask the users")
    draft = TeamDraft(beginner, model, k=_K, seed=4)
    for t, (X, y) in enumerate(queries[_N:], start=_N):
        draft.update(who.clicks(draft.show_one(X), y, t))
        if not draft.interval().lower <= 0.5 <= draft.interval().upper:
            break
    show(f"preference for the later model: {draft.interval()}")
    say(f"""Two rankings are drafted into one list, and clicks are votes. The interval holds at all times at once, so we could
        stop as soon as it excluded one half: after {draft.n} queries.""")
