"""A folder of a service as each version wrote it, and what the service answered then.

    python -m tests.reference.service_formats

writes `tests/storage/formats/VERSION/service` with the code that is imported, unless it exists. Every later version must read
it. Run it before each release.
"""

import json
from pathlib import Path

import numpy as np

import online_rank
from online_rank import AdditiveRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService

FOLDERS = Path(__file__).parents[1] / "storage" / "formats"
ANSWERS = "answers.json"


def documents(rng):
    """A query with numbers and categories; every fourth price is missing."""
    return {
        f"d{i}": {
            "price": None if rng.random() < 0.25 else round(float(rng.random()), 3),
            "brand": "abc"[rng.integers(3)],
            "age": int(rng.integers(10)),
        }
        for i in range(6)
    }


def handled(durable, request):
    """The answer to a request, which is kept."""
    reply = durable.service.handle(json.dumps(request).encode())
    durable.append([reply.outcome], reply.learned)
    durable.between_commits()
    return reply.answer


def write(folder):
    """A service that learned 54 of 60 queries, a checkpoint after 41 of them, and what it answers then."""
    rng = np.random.default_rng(3)
    durable = DurableService(RankingService(AdditiveRanker()), folder)
    for number in range(60):
        asked = documents(rng)
        handled(durable, {"id": number, "docs": asked})
        if number % 10 != 9:
            grades = {name: int((x["price"] or 0.0) > 0.5) + int(x["brand"] == "a") for name, x in asked.items()}
            handled(durable, {"id": number, "grades": grades})
        if number == 40:
            durable.save()
    probe = documents(rng)
    scores = handled(durable, {"id": "probe", "docs": probe})
    durable.close()
    told = {"probe": probe, "ranking": scores["ranking"], "scores": scores["scores"], "waiting": [9, 19, 29, 39, 49, 59]}
    (folder / ANSWERS).write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    target = FOLDERS / online_rank.__version__ / "service"
    if target.exists() and any(target.iterdir()):
        print(f"{target} exists")
    else:
        write(target)
        print(f"wrote {target}")
