"""The state of a service as each version wrote it, in a folder and in PostgreSQL, and what the service answered then.

`python -m tests.reference.formats` writes both with the code that is imported, to `tests/storage/formats/VERSION/service` and
`.../postgresql`, unless they exist; the second needs PostgreSQL's programs. Every later version must read them.
"""

import json
import re
import subprocess
from pathlib import Path

import numpy as np

from online_rank import AdditiveRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService
from tests.reference import postgresql

FOLDERS = Path(__file__).parents[1] / "storage" / "formats"
ANSWERS, DUMP = "answers.json", "dump.sql"
WORDS = ("red", "blue", "green", "shoe", "boot", "sandal", "light", "warm", "wide", "soft")


def documents(rng):
    """A query with numbers, categories and texts; every fourth price is missing."""
    return {
        f"d{i}": {
            "price": None if rng.random() < 0.25 else round(float(rng.random()), 3),
            "brand": "abc"[rng.integers(3)],
            "age": int(rng.integers(10)),
            "title": " ".join(WORDS[k] for k in rng.integers(len(WORDS), size=3)),
        }
        for i in range(6)
    }


def handled(durable, request):
    """The answer to a request, which is kept."""
    reply = durable.service.handle(json.dumps(request).encode())
    durable.append([reply.outcome], reply.learned)
    durable.between_commits()
    return reply.answer


def write(place, folder):
    """A service that learned 54 of 60 queries, a checkpoint after 41 of them, and, in a folder, what it answers then."""
    rng = np.random.default_rng(3)
    durable = DurableService(RankingService(AdditiveRanker()), place)
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


def dumped(server):
    """The schema of a service in a database, and what is in it, as SQL; without what differs from one dump to the next."""
    command = [server.bin / "pg_dump", "--schema=online_rank", "--no-owner", "--no-acl", "--inserts", server.address]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"(?m)^(--.*|\\(un)?restrict .*|SET transaction_timeout.*|)\n", "", text)


def restore(server, text):
    """Put a dump into an empty database."""
    command = [server.bin / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", server.address]
    subprocess.run(command, check=True, input=text, text=True, stdout=subprocess.DEVNULL)


def _write_postgresql(folder):
    with postgresql.running() as server:
        write(server.address, folder)
        (folder / DUMP).write_text(dumped(server))


def write_missing(folder):
    """Write the state of a service to the folder of a version, unless it is there."""
    for name, write_to in (("service", lambda target: write(target, target)), ("postgresql", _write_postgresql)):
        target = folder / name
        if not (target / ANSWERS).exists():
            target.mkdir(exist_ok=True)
            write_to(target)
