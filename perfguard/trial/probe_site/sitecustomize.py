"""Import probe: at the end of a Python process, list the files it loaded. Standard library only, silent on any failure.

Runs inside a person's own command, so it must change nothing there: it leaves the path as it was found without it,
and hands over to the sitecustomize that it stands in front of.
"""

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # a command of a person starts no slower than it must
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))


def dump(folder: str, started_in: str) -> None:
    try:
        import hashlib
        import json

        loaded = {}
        for name, path in list(modules(started_in)) + list(shared_objects()):
            file = container(path)
            if file:
                digest = hashlib.sha256()
                with open(file, "rb") as stream:
                    for piece in iter(lambda: stream.read(1 << 20), b""):
                        digest.update(piece)
                loaded[name] = {"path": path, "sha256": digest.hexdigest()}
        target = os.path.join(folder, f"{os.getpid()}-{os.urandom(4).hex()}.json")
        with open(target + ".part", "w") as stream:
            json.dump(loaded, stream)
        os.replace(target + ".part", target)
    except BaseException:
        pass


def tell(folder: str, begun: "dict[str, str]", started: "dict[str, str]") -> None:
    """What this process saw of its environment, filtered here: secrets are not even written for a moment."""
    try:
        import json

        with open(os.path.join(folder, "wanted")) as stream:
            wanted = json.load(stream)
        prefixes, names = tuple(wanted["prefixes"]), set(wanted["names"])
        seen, begun, started = (
            {name: value for name, value in environ.items() if name.startswith(prefixes) or name in names}
            for environ in (dict(os.environ), begun, started)
        )
        told = {
            "program": os.path.basename(sys.argv[0]) if sys.argv else "",
            "rank": os.environ.get("RANK", ""),
            "executable": sys.executable,
            "python": sys.version.split()[0],
            "path": [os.path.abspath(entry) for entry in sys.path],
            "startup": startup(),
            "environment": [seen, begun, started],
        }
        target = os.path.join(folder, f"{os.getpid()}-{os.urandom(4).hex()}.seen")
        with open(target + ".part", "w") as stream:
            json.dump(told, stream)
        os.replace(target + ".part", target)
    except BaseException:
        pass


def startup() -> "dict[str, str]":
    """Where variables are set that nobody remembers: files that Python runs before any program."""
    modules = {name: sys.modules.get(name) for name in ("sitecustomize", "usercustomize")}
    paths = {name: getattr(module, "__file__", None) for name, module in modules.items()}
    return {name: path for name, path in paths.items() if path and os.path.dirname(os.path.abspath(path)) != HERE}


def container(path: str) -> str:
    """The file itself, or the zip archive that a module was loaded from; "" if there is neither."""
    while not os.path.isfile(path):
        path, name = os.path.split(path)
        if not name:
            return ""
    return path


def modules(started_in: str) -> "Iterator[tuple[str, str]]":
    """(name, real path) of every module with a file, without Python's own library."""
    library = os.path.dirname(os.path.realpath(os.__file__))
    packages = tuple(os.path.join(library, name) for name in ("site-packages", "dist-packages"))
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path is None and name == "__main__" and sys.argv:
            path = os.path.join(started_in, sys.argv[0])  # Python takes a script's __file__ away before the end
        if not isinstance(path, str) or name == "sitecustomize":
            continue
        path = os.path.realpath(path)
        if not path.startswith(library + os.sep) or path.startswith(packages):
            yield name, path


def shared_objects() -> "Iterator[tuple[str, str]]":
    """(path, path) of every mapped shared object outside the system and Python's own library."""
    own = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "lib-dynload")
    system = ("/usr/lib", "/lib", own)
    try:
        with open("/proc/self/maps", errors="surrogateescape") as stream:
            rows = [line.rstrip("\n").split(None, 5) for line in stream]
    except OSError:
        return
    for path in sorted({row[5] for row in rows if len(row) == 6}):
        is_shared = path.endswith(".so") or ".so." in os.path.basename(path)
        if is_shared and not path.startswith(system):
            yield path, path


def hand_over() -> None:
    """Run the sitecustomize that would have run without us, if there is one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def begin() -> None:
    try:
        folder, started_in = os.environ["PERFGUARD_PROBE"], os.getcwd()
    except (KeyError, OSError):
        hand_over()
        return  # not asked for, or started in a folder that is gone
    begun = dict(os.environ)
    hand_over()
    started = dict(os.environ)

    def report() -> None:
        dump(folder, started_in)
        tell(folder, begun, started)

    atexit.register(report)
    # Not every process ends as it should: workers and engines leave by os._exit, servers by SIGTERM, wrappers by exec.
    for name in ("_exit", "execv", "execve"):
        setattr(os, name, dumping_first(getattr(os, name), report))
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: end_by_sigterm(report))


def dumping_first(leave: "Callable[..., NoReturn]", report: "Callable[[], None]") -> "Callable[..., NoReturn]":
    def dump_and_leave(*arguments: object) -> "NoReturn":
        report()
        leave(*arguments)

    return dump_and_leave


def end_by_sigterm(report: "Callable[[], None]") -> None:
    report()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


begin()
