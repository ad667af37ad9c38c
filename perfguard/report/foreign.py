"""Text that others wrote (commit subjects, branch names, reasons of a runner), made safe for each output. Pure."""

import html
import re

# What Markdown on GitHub and GitLab reads as markup, a mention or a reference.
_MARKDOWN = frozenset("\\`*_{}[]<>|~@#$&!")


def one_line(text: object) -> str:
    """Nothing that moves a cursor, breaks a line, hides text or cannot be encoded: such characters are spelled out."""
    return "".join(c if c.isprintable() else _spelled(c) for c in str(text))


def shortened(text: object, width: int) -> str:
    """One line of at most `width` characters, with an ellipsis where it is longer."""
    line = one_line(text)
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _spelled(character: str) -> str:
    if character in "\n\r\t\v\f\u2028\u2029\u0085" or character.isspace():
        return " "
    return character.encode("unicode_escape").decode("ascii")


def markdown(text: object) -> str:
    """For prose and table cells. Entities instead of backslashes: they hold inside tables and HTML alike."""
    return "".join(f"&#{ord(c)};" if c in _MARKDOWN else c for c in one_line(text))


def xml(text: object) -> str:
    return html.escape(one_line(text), quote=True)


def code(text: object) -> str:
    """A code span for Markdown prose, to be copied; not for a table, where a bar would end the cell."""
    line = one_line(text)
    ticks = _fence(line, least=1)
    # Spaces keep a tick at either end apart from the fence; Markdown takes one of each away.
    return f"{ticks} {line} {ticks}" if "`" in line else f"{ticks}{line}{ticks}"


def fenced(text: str) -> str:
    """A code block that `text` cannot end."""
    fence = _fence(text, least=3)
    return f"{fence}text\n{text}\n{fence}"


def _fence(text: str, least: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
