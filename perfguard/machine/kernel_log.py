"""What the kernel wrote about GPUs: NVIDIA's Xid messages. Reads the log; decides nothing."""

import os
import re
from pathlib import Path

KMSG = Path("/dev/kmsg")
MAX_RECORDS = 50_000
RECORD_BYTES = 8192
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


def xids(text: str) -> list[list[str | int]]:
    """[bus, code] of every Xid message, in the order they were written."""
    return [[found.group(1).lower(), int(found.group(2))] for found in XID.finditer(text)]


def kernel_log(path: Path = KMSG) -> str:
    """The kernel's ring buffer. Raises OSError: in containers and for most users it may not be read."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    records: list[bytes] = []
    try:
        while len(records) < MAX_RECORDS and (record := _next(handle)):
            records.append(record)
    finally:
        os.close(handle)
    return b"".join(records).decode(errors="replace")


def _next(handle: int) -> bytes:
    """One record, or b"" at the end. A record that was overwritten meanwhile (EPIPE) is passed over."""
    while True:
        try:
            return os.read(handle, RECORD_BYTES)
        except BlockingIOError:
            return b""
        except BrokenPipeError:
            continue
