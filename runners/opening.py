"""Opens a session of the subject at whatever contract it speaks. Must not measure."""

from collections.abc import Mapping
from typing import Any

from runners.contract import Session
from runners.version1 import Version1, spec_of_1


def open_session(entry: Any, spec: Mapping[str, Any]) -> Session:
    """Raises UnbuildableError if the subject's version cannot do what is asked for, and what its build raises."""
    if entry.API_VERSION == 1:
        return Version1(entry.build(spec_of_1(dict(spec))))
    session: Session = entry.build(dict(spec))
    return session


def innermost(session: Session) -> Any:
    """The subject's own object."""
    return session.inner if isinstance(session, Version1) else session


def has_marks(session: Session) -> bool:
    """Whether the subject can take time stamps of its own."""
    return not isinstance(session, Version1)
