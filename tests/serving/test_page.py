"""The live page."""

import re
from pathlib import Path

import online_rank.serving

PAGE = (Path(online_rank.serving.__file__).parent / "page.html").read_text()


def test_every_name_is_declared_once():
    # A browser refuses the whole script otherwise, and the page stays empty.
    (script,) = re.findall(r"<script>(.*?)</script>", PAGE, re.DOTALL)
    declared = []
    for line in script.splitlines():
        if found := re.match(r"(?:async )?(?:function\*?|class) (\w+)", line):
            declared.append(found[1])
        elif line.startswith(("const ", "let ")):
            # Values have no commas at the top level of their line, but in brackets.
            flat = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|`[^`]*`|\"[^\"]*\"", "", line)
            declared += re.findall(r"(?:^(?:const|let) |, )(\w+) =", flat)
    assert len(declared) > 20
    assert sorted(declared) == sorted(set(declared))
