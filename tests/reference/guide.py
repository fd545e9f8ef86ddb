"""The part of the guide to the service that follows from the types of its messages."""

import json

from online_rank.serving.kinds import EXAMPLES
from online_rank.serving.reading import _ANY, _meanings


def guide() -> str:
    """The kinds of requests and their fields, as tables."""
    lines = ["| kind | request | what it does |", "|---|---|---|"]
    lines += [f"| {kind.__name__.lower()} | `{json.dumps(example)}` | {kind.__doc__} |" for kind, example in EXAMPLES.items()]
    lines += ["", "| field | of | meaning |", "|---|---|---|"]
    for name, meaning in _meanings(_ANY.type).items():
        kinds = [kind.__name__.lower() for kind in EXAMPLES if name in kind.__struct_fields__]
        lines.append(f'| `"{name}"` | {", ".join(kinds)} | {meaning} |')
    return "\n".join(lines) + "\n"
