"""What /proc tells of processes and ports while both come and go."""

import os
import socket
import subprocess
import sys
import threading

from runners.engines import processes


def test_a_process_that_ends_while_it_is_looked_at_is_no_error():
    """Twenty of them, each asked for without a pause until it is gone: one that was read twice would fail here."""
    for _ in range(20):
        child = subprocess.Popen(["sleep", "0.01"])
        collector = threading.Thread(target=child.wait)
        collector.start()
        while parent := processes.parent_of(child.pid):
            assert parent == os.getpid()
        collector.join()


def test_descendants_are_found_whatever_session_they_are_in():
    code = "import subprocess; p = subprocess.Popen(['sleep', '60'], start_new_session=True)"
    command = [sys.executable, "-c", f"{code}; print(p.pid, flush=True); p.wait()"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    try:
        found = processes.descendants(os.getpid())
        assert found.index(parent.pid) < found.index(child)
        assert (processes.parent_of(child), processes.name_of(child)) == (parent.pid, "sleep")
    finally:
        os.kill(child, 9)
        parent.communicate()
    assert (processes.parent_of(child), processes.name_of(child), processes.command_of(child)) == (0, "", "")


def test_a_port_is_held_by_who_listens_on_it_and_free_when_nobody_does():
    port = processes.free_port("127.0.0.1")
    assert not processes.is_listened_on(port)
    assert processes.holders(port) == []
    with socket.create_server(("127.0.0.1", port)):
        assert processes.is_listened_on(port)
        assert processes.holders(port) == [os.getpid()]
