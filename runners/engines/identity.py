"""Is the server that answers the one that was started, with the model that was asked for? Says what was seen.

Must not decide what a wrong one is worth beyond a reason.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runners import origin
from runners.engines import ports, processes
from runners.engines.dialect import Dialect
from runners.engines.params import EngineParams
from runners.engines.probe import Found
from runners.engines.records import Reason
from runners.engines.server import Server, pids

CODE = "wrong_engine"


def listeners(server: Server) -> tuple[list[int], Reason | None]:
    """Who listens on the server's port, and a reason if it is not the server that we started."""
    sockets = processes.listening_on(server.port)
    if not sockets:
        return [], None
    # Its own first: a server that loads is asked twice a second, and a machine has files open by the hundred thousand.
    own = processes.owners(sockets, sorted(pids(server)))
    if own:
        return own, None
    found = processes.owners(sockets)
    if not server.is_ours or not processes.is_listened_on(server.port):
        return found, None  # gone at this moment: what is asked next will say so
    text = f"port {server.port} is held by {ports.holder(server.port)}, not by what was started"
    return found, Reason(code=CODE, text=text)


def identify(
    server: Server, dialect: Dialect, params: EngineParams, found: Found
) -> tuple[dict[str, Any], tuple[Reason, ...], str]:
    """What the server is and says, the reasons why it is not the one that was meant, and the model's name there."""
    holders, foreign = listeners(server)
    told = dialect.version(server.ask) if dialect.version else ""
    offered, unread = _offered(server, dialect)
    mapped = _mapped(server, found)
    reasons = [*([foreign] if foreign else []), *_versions(told, params.version or found.version, server)]
    reasons += [*unread, *_models(offered, params), *_elsewhere(mapped, found)]
    record = {
        "name": dialect.name,
        "version": told,
        "pid": holders[0] if holders else None,
        "port": server.port,
        "model": params.model or (offered[0] if offered else ""),
        "models": list(offered),
        "module_path": str(found.folder or ""),
        "module_version": found.version,
        "mapped": sorted(mapped),
    }
    return record, tuple(reasons), _served(offered, params)


def binaries(server: Server, packages: tuple[str, ...], found: Found) -> dict[str, dict[str, str]]:
    """{place from its package on: {"path", "sha256"}} of the shared objects of these packages that are loaded."""
    files = {path for pid in pids(server) for path in processes.mapped_files(pid) if ".so" in Path(path).name}
    places = {path: place_in_package(path, packages, found) for path in sorted(files) if Path(path).is_file()}
    return {place: {"path": path, "sha256": origin.sha256(path)} for path, place in places.items() if place}


def place_in_package(path: str, packages: tuple[str, ...], found: Found) -> str:
    """`path` from its package on, "" if it belongs to none of these: an installed one, or the one that was found."""
    parts = Path(path).parts
    is_own = is_of_package(path, found)
    starts = [
        at for at, part in enumerate(parts) if part in packages and (is_own or parts[at - 1].endswith("-packages"))
    ]
    return "/".join(parts[starts[-1] :]) if starts else ""


def _offered(server: Server, dialect: Dialect) -> tuple[tuple[str, ...], tuple[Reason, ...]]:
    """The models' names; what cannot be read proves nothing."""
    try:
        return (dialect.models(server.ask) if dialect.models else ()), ()
    except ValueError as error:
        return (), (Reason(code=CODE, text=f"which model is served cannot be told: {error}"),)


def _served(offered: tuple[str, ...], params: EngineParams) -> str:
    """Under which name requests ask for it."""
    wanted = params.served_model or params.model
    return wanted if wanted in offered or not offered else offered[0]


def _versions(told: str, expected: str, server: Server) -> Iterator[Reason]:
    """A server leaves out what stands behind "+" in the version of its package."""
    if told and expected and told.partition("+")[0] != expected.partition("+")[0]:
        text = f"the server on port {server.port} says it is version {told}; this side's is {expected}"
        yield Reason(code=CODE, text=text)


def _models(offered: tuple[str, ...], params: EngineParams) -> Iterator[Reason]:
    wanted = params.served_model or params.model
    if offered and wanted and not any(_same_model(wanted, name) for name in offered):
        yield Reason(code=CODE, text=f"the server offers {', '.join(offered)}, asked for was {wanted}")


def _same_model(wanted: str, name: str) -> bool:
    """A path may be told with another spelling."""
    return wanted == name or Path(wanted).resolve() == Path(name).resolve()


def _mapped(server: Server, found: Found) -> set[str]:
    """Shared objects of the package that its processes have loaded, by their real place."""
    files = {path for pid in pids(server) for path in processes.mapped_files(pid)}
    return {path for path in files if ".so" in path and is_of_package(path, found)}


def is_of_package(path: str, found: Found) -> bool:
    """Whether a file lies in the package that was found, or in an installed one of that name.

    A folder of that name is not enough: environments are called after the engine in them.
    """
    if found.folder is None:
        return False
    return Path(path).is_relative_to(found.folder) or f"site-packages/{found.module}/" in path


def _elsewhere(mapped: set[str], found: Found) -> Iterator[Reason]:
    """The package that this Python finds is not the one whose binaries the server has loaded."""
    strangers = sorted(path for path in mapped if found.folder and not Path(path).is_relative_to(found.folder))
    if strangers:
        yield Reason(code=CODE, text=f"the server loaded {strangers[0]}, but {found.module} lies in {found.folder}")
