"""Walk-throughs to run and to read: `python -m online_rank.walkthrough NAME`.

- `news`: a news feed with named features that appear and vanish, readers whose taste changes, and a ranker that forgets;
- `clicks`: a ranker that shows lists and learns from clicks; estimating position bias, and comparing two rankers;
- `letor`: from a LETOR file to a model with a certificate (`letor FILE` for your own);
- `packages`: recommendations from raw counts, sizes, text and names, learned from Debian's package lists where they are;
- `neural`: a neural ranker behind a scaler in a pipeline, and cutting its rankings into grades.
"""
