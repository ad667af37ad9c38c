"""A stored comparison of GOOD and BAD -> what is known before a search begins. Pure; must not measure or look anything
up.
"""

from collections.abc import Mapping
from typing import Any

from perfguard.records import Outcome

# EQUIVALENT was withheld: nobody saw which code ran.
WITHHELD = "CODE_UNKNOWN"


def counts_at_all(comparison: Mapping[str, Any]) -> bool:
    """Do its launches say something of the launches of a search? Instances of one process do not, nor does an INVALID
    comparison.
    """
    return bool(comparison.get("scope", "full") == "full" and comparison["outcome"] != Outcome.INVALID)


def known_outcome(comparison: Mapping[str, Any], metric: str) -> str:
    """How the comparison (perfguard/comparison@1) ended for the searched metric; "" where that ends no search.

    The outcome of the whole comparison is about its primary metrics, and may be that of another one.
    """
    found = next((m["outcome"] for m in comparison["metrics"] if m["name"] == metric), None)
    if found is None or not counts_at_all(comparison):
        return ""
    is_withheld = any(reason["code"] == WITHHELD for reason in comparison["reasons"])
    return "" if found == Outcome.EQUIVALENT and is_withheld else str(found)
