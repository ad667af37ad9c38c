"""Runs one setup command and dies with perfguard: `python -I -S setup_guard.py COMMAND`, standard library only.

It leads the process group of the setup. Its stdin is held open by perfguard and never written to: the end of it, also
after kill -9, ends the whole group. What changed its session is found by its mark at the next start. Must not judge
the setup: it ends as the command ended.
"""

import os
import signal
import sys
import threading


def main(command: str) -> None:
    child = os.posix_spawn(
        "/bin/sh",
        ["/bin/sh", "-c", command],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
        # Python ignores them, and a program would inherit that.
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )
    threading.Thread(target=end_with_perfguard, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def end_with_perfguard() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
