"""What happened to this machine since a moment, from time stamps and logs that are there anyway. Reads only.

Each function returns events (seconds since 1970, words), newest first, or raises OSError where nothing can be told.
"""

import os
import platform
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import psutil

from perfguard.machine.kernel_log import kernel_log

Event = tuple[float, str]
PROFILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".profile", ".bash_aliases", ".zshrc", ".zshenv", ".zprofile",
    ".config/fish/config.fish", ".config/environment.d",
)  # fmt: skip
SYSTEM_PROFILES = ("etc/profile", "etc/profile.d", "etc/environment", "etc/bash.bashrc", "etc/nccl.conf")
PACKAGE_SUFFIXES = (".dist-info", ".egg-info")
STARTUP = ("sitecustomize.py", "usercustomize.py")
DPKG = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (install|upgrade|remove|purge) (\S+) (\S+) (\S+)")
# One record of /dev/kmsg: "priority,number,microseconds since boot,flags;text".
XID = re.compile(r"^\d+,\d+,(\d+),[^;]*;NVRM: (Xid \(PCI:[0-9a-fA-F:.]+\): \d+[^\n]*)", re.MULTILINE)
MODULE_FOLDERS = ("updates", "extra", "kernel/drivers/video", "kernel/nvidia-*", "misc")
# A cache may hold a hundred thousand files: folders two levels down tell when something was added.
CACHE_DEPTH = 2
MAX_EVENTS = 500


def reboots(since_s: float) -> list[Event]:
    booted_s = psutil.boot_time()
    return [(booted_s, f"booted, {platform.system()} {platform.release()}")] if booted_s >= since_s else []


def packages(folders: Iterable[str], since_s: float) -> list[Event]:
    """Python packages that were installed since then into these folders (sys.path)."""
    found = [(at, name.rpartition(".")[0]) for at, name in _entries(folders) if name.endswith(PACKAGE_SUFFIXES)]
    return _recent(found, since_s)


def startup_files(folders: Iterable[str], since_s: float) -> list[Event]:
    """Files that Python runs by itself: sitecustomize, usercustomize, .pth."""
    files = [Path(folder, name) for folder in dict.fromkeys(folders) for name in _names(folder)]
    return _written([file for file in files if file.name in STARTUP or file.suffix == ".pth"], since_s)


def profiles(home: Path, since_s: float, root: Path = Path("/")) -> list[Event]:
    """Files of shells that set variables, the person's and the system's."""
    places = [*(home / name for name in PROFILES), *(root / name for name in SYSTEM_PROFILES)]
    files = [file for place in places for file in ([place, *place.glob("*")] if place.is_dir() else [place])]
    return _written(files, since_s)


def system_packages(since_s: float, log: Path = Path("/var/log/dpkg.log")) -> list[Event]:
    """What dpkg did. Raises OSError where its log is not there (another system) or may not be read."""
    lines = (DPKG.match(line) for line in log.read_text(errors="replace").splitlines())
    found = [(_local(match.group(1)), " ".join(match.groups()[1:])) for match in lines if match]
    return _recent(found, since_s)


def driver(since_s: float, root: Path = Path("/")) -> list[Event]:
    """Files of NVIDIA's kernel module. Raises OSError where none are found: then nothing is known of the driver."""
    modules = root / "lib/modules" / platform.release()
    files = [file for folder in MODULE_FOLDERS for place in modules.glob(folder) for file in place.rglob("nvidia*.ko*")]
    version = root / "proc/driver/nvidia/version"
    if not files:
        said = f"loaded: {version.read_text().splitlines()[0][:80]}; " if version.exists() else ""
        raise OSError(0, f"{said}no file of NVIDIA's kernel module below {modules}")
    return _written(files, since_s)


def xids(since_s: float, log: str | None = None) -> list[Event]:
    """GPU errors in the kernel's ring buffer. Raises OSError where it may not be read."""
    text = kernel_log() if log is None else log
    booted_s = psutil.boot_time()
    found = [(booted_s + int(match.group(1)) / 1e6, match.group(2)) for match in XID.finditer(text)]
    return _recent(found, since_s)


def compile_caches(environment: Mapping[str, str], home: Path, since_s: float) -> list[Event]:
    """Folders of kernel caches in which something was added or removed."""
    user = environment.get("USER", "")
    named = {
        "TRITON_CACHE_DIR": home / ".triton/cache",
        "TORCHINDUCTOR_CACHE_DIR": Path("/tmp") / f"torchinductor_{user}",
        "CUDA_CACHE_PATH": home / ".nv/ComputeCache",
        "VLLM_CACHE_ROOT": home / ".cache/vllm",
        "FLASHINFER_WORKSPACE_BASE": home / ".cache/flashinfer",
        "TORCH_EXTENSIONS_DIR": home / ".cache/torch_extensions",
    }
    places = [Path(environment.get(name, str(place))) for name, place in named.items()]
    newest = [(max(_stamps(place, CACHE_DEPTH)), str(place)) for place in places if place.is_dir()]
    return _recent(newest, since_s)


def model_snapshots(environment: Mapping[str, str], home: Path, since_s: float) -> list[Event]:
    """Snapshots of models in the cache of the Hugging Face hub."""
    hub = Path(environment.get("HF_HOME", str(home / ".cache/huggingface"))) / "hub"
    files = [*hub.glob("models--*/snapshots/*"), *hub.glob("models--*/refs/*")]
    found = [(file.lstat().st_mtime, str(file.relative_to(hub))) for file in files]
    return _recent(found, since_s)


def _stamps(place: Path, depth: int) -> list[float]:
    stamps = [place.lstat().st_mtime]
    if depth:
        stamps += [at for child in _folders(place) for at in _stamps(child, depth - 1)]
    return stamps


def _folders(place: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _entries(folders: Iterable[str]) -> list[Event]:
    return [(Path(folder, name).lstat().st_mtime, name) for folder in dict.fromkeys(folders) for name in _names(folder)]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []


def _written(files: Sequence[Path], since_s: float) -> list[Event]:
    return _recent([(file.stat().st_mtime, f"{file} was written") for file in files if file.is_file()], since_s)


def _recent(events: Sequence[Event], since_s: float) -> list[Event]:
    return sorted((event for event in events if event[0] >= since_s), reverse=True)[:MAX_EVENTS]


def _local(text: str) -> float:
    return time.mktime(datetime.strptime(text, "%Y-%m-%d %H:%M:%S").timetuple())
