"""What a server's log says of its end, in one line. Pure.

Of a traceback only the line that names the error is kept: the rest is in the log, which the harness keeps.
"""

import re
from collections.abc import Sequence

# What loggers put in front: "(EngineCore pid=7) ERROR 11-30 04:50:21 [core.py:12] " of vLLM,
# "[2026-11-30 04:50:21 TP0] " of SGLang.
HEAD = re.compile(
    r"^(\([^)]*pid=\d+\) ?)?(\[\d{4}-\d\d-\d\d [^\]]*\] ?)?((?:INFO|DEBUG|WARNING|ERROR|CRITICAL)[ :]\S* ?)?"
)
STAMP = re.compile(r"^[\d:.,]+ (\[[^\]]*\] ?)?")
AN_ERROR = re.compile(r"^([A-Za-z_]\w*\.)*[A-Z]\w*(Error|Exception|Interrupt|Exit|Timeout|Fault)\b(: |$)")
A_FAILURE = re.compile(r"error|fail|fatal|abort|killed|signal|out of memory|cannot|exception", re.I)
OF_TRACEBACK = ("Traceback (most recent", "During handling of", "The above exception", "[rank", "^", "~")
MAX_CHARS = 300
NOTHING = "it wrote nothing"


def told(lines: Sequence[str]) -> str:
    """The first error that is named, and the last words: a parent only says at its end that a child of it failed."""
    bodies = [body for line in lines if (body := body_of(line)) and not is_of_traceback(body)]
    if not bodies:
        return NOTHING
    errors = [body for body in bodies if AN_ERROR.search(body)]
    failures = errors or [body for body in bodies if A_FAILURE.search(body)]
    last = (failures or bodies)[-1]
    first = errors[0] if errors else last
    return " … ".join(dict.fromkeys(words.strip()[:MAX_CHARS] for words in (first, last)))


def body_of(line: str) -> str:
    """Without what loggers put in front; the spaces that it begins with tell a traceback."""
    rest = line[HEAD.match(line).end() :]  # type: ignore[union-attr]  # matches every line, if only its beginning
    return STAMP.sub("", rest, count=1).rstrip()


def is_of_traceback(body: str) -> bool:
    return body[0].isspace() or body.startswith(OF_TRACEBACK)
