"""Records to JSON and back, exactly. Pure: content that is stored elsewhere is handed out by reference.

Plain JSON wherever JSON can say it. What it cannot say is an object with one key that begins with "$":
{"$tuple": [..]}, {"$dict": [[key, value], ..]} (keys that are no strings or begin with "$"), {"$base64": ..},
and references: {"$json": sha256} and {"$bytes": sha256} into table provenance, {"$series": position} into
table samples. Content that is a large mapping is itself {"$parts": [sha256, ..]}: see `parts`.
"""

import base64
import dataclasses
import hashlib
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from perfguard.store import parts

# Mappings with these names hold what many trials share, or much: they are stored once, compressed, whoever uses them.
SHARED_NAMES = frozenset(
    {"environment", "versions", "origin", "machine", "method", "conditions", "software", "provenance"}
)
# Shorter lists of numbers are left where a person reads them.
MIN_SERIES = 32


@dataclass(frozen=True, kw_only=True)
class Series:
    """A list of numbers taken out of a record, with its place in it ("/samples/plain") as a name."""

    name: str
    values: list[float]


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A record as text, with what the text refers to. `contents` maps sha256 to (kind, content)."""

    text: str
    contents: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    series: tuple[Series, ...] = ()


Record = TypeVar("Record")
Contents = dict[str, tuple[str, bytes]]
LoadContent = Callable[[str], Any]
LoadSeries = Callable[[int], list[float]]


def _no_reference(reference: str | int) -> Any:
    raise LookupError(f"reference to {reference!r} in a text that refers to nothing")


def pack(value: Any, *, with_series: bool = False) -> Packed:
    """`value`: a record of perfguard.records, or anything JSON can say plus tuples and bytes.

    Raises TypeError for anything else, a numpy array for example: it would not come back the same.
    """
    packer = _Packer(contents={}, series=[] if with_series else None)
    text = dump(packer.plain(value, Any, ""))
    return Packed(text=text, contents=packer.contents or {}, series=tuple(packer.series or ()))


def shared(plain: Mapping[str, Any]) -> tuple[str, Contents]:
    """sha256 to refer to for a mapping, and the contents behind it: itself, or its parts and the list of them.

    `plain` refers to nothing. One with other keys than plain text is {"$dict": ..} by now: one key, so it stays whole.
    """
    whole = dump(plain, sort_keys=True).encode("ascii")
    if not parts.is_divided(plain, len(whole)):
        return _sha256(whole), {_sha256(whole): ("json", whole)}
    texts = [dump(part, sort_keys=True).encode("ascii") for part in parts.divided(plain)]
    contents: Contents = {_sha256(text): ("json", text) for text in texts}
    listed = dump({"$parts": list(contents)}).encode("ascii")
    return _sha256(listed), {**contents, _sha256(listed): ("json", listed)}


def inline(value: Any, *, sort_keys: bool = False) -> str:
    """`value` as one text that refers to nothing."""
    return dump(_Packer().plain(value, Any, ""), sort_keys=sort_keys)


def digest(value: Any) -> str:
    """sha256 of a mapping, whatever the order of its keys."""
    return _sha256(inline(value, sort_keys=True).encode("ascii"))


def unpack(text: str, load_content: LoadContent = _no_reference, load_series: LoadSeries = _no_reference) -> Any:
    """The value of a packed or inline text; records are still mappings, see `build`."""
    return _restored(json.loads(text), load_content, load_series)


def build(kind: type[Record], plain: Mapping[str, Any]) -> Record:
    """A record from its mapping. A field that an older version did not know takes its default."""
    return typing.cast(Record, _built(kind, plain))


def dump(plain: Any, *, sort_keys: bool = False) -> str:
    # ASCII escapes carry NUL and lone surrogates (text of unknown encoding) through SQLite unharmed.
    return json.dumps(plain, ensure_ascii=True, sort_keys=sort_keys, separators=(",", ":"))


def shown(text: str) -> str:
    """Foreign text for a column that people search: what UTF-8 and SQLite cannot hold is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


@dataclass(frozen=True, kw_only=True)
class _Packer:
    """Collects what is taken out of a value; None leaves it in."""

    contents: Contents | None = None
    series: list[Series] | None = None

    def plain(self, value: Any, hint: Any, path: str) -> Any:
        """What json.dumps can write for `value`. `hint`: the type its place asks for, so that reading knows."""
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            hints = typing.get_type_hints(type(value))
            names = [f.name for f in dataclasses.fields(value)]
            return {n: self.plain(getattr(value, n), hints[n], f"{path}/{n}") for n in names}
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if isinstance(value, tuple):
            items = [self.plain(v, h, f"{path}/{k}") for k, (v, h) in enumerate(_hinted(value, hint))]
            return items if typing.get_origin(hint) is tuple else {"$tuple": items}
        if isinstance(value, list):
            return self._list(value, path)
        return self._bytes(value) if isinstance(value, bytes) else value

    def _mapping(self, value: Mapping[Any, Any], path: str) -> dict[str, Any]:
        if self.contents is not None and value and path.rpartition("/")[2] in SHARED_NAMES:
            sha256, contents = shared(_Packer().plain(value, Any, ""))
            self.contents.update(contents)
            return {"$json": sha256}
        plain = {key: self.plain(item, Any, f"{path}/{key}") for key, item in value.items()}
        if all(isinstance(key, str) and not key.startswith("$") for key in plain):
            return plain
        return {"$dict": [[key, item] for key, item in plain.items()]}

    def _list(self, value: list[Any], path: str) -> Any:
        if self.series is not None and _is_series(value):
            self.series.append(Series(name=shown(path), values=value))
            return {"$series": len(self.series) - 1}
        return [self.plain(item, Any, f"{path}/{k}") for k, item in enumerate(value)]

    def _bytes(self, value: bytes) -> dict[str, str]:
        if self.contents is None:
            return {"$base64": base64.b64encode(value).decode("ascii")}
        self.contents[_sha256(value)] = ("bytes", value)
        return {"$bytes": _sha256(value)}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hinted(value: tuple[Any, ...], hint: Any) -> Iterator[tuple[Any, Any]]:
    """Each item with the type its place asks for: (X, ...) repeats, (X, Y) names each."""
    arguments = typing.get_args(hint) if typing.get_origin(hint) is tuple else ()
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    return zip(value, arguments or (Any,) * len(value), strict=True)


def _is_series(value: list[Any]) -> bool:
    return len(value) >= MIN_SERIES and all(type(item) in (float, int) for item in value)


def _restored(plain: Any, load_content: LoadContent, load_series: LoadSeries) -> Any:
    def inner(item: Any) -> Any:
        return _restored(item, load_content, load_series)

    if isinstance(plain, list):
        return [inner(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    match next(iter(plain.items()), None):
        case ("$tuple", items):
            return tuple(inner(item) for item in items)
        case ("$dict", pairs):
            return {inner(key): inner(item) for key, item in pairs}
        case ("$base64", text):
            return base64.b64decode(text)
        case ("$json" | "$bytes", sha256):
            return load_content(sha256)
        case ("$parts", taken):
            return parts.joined(load_content(sha256) for sha256 in taken)
        case ("$series", position):
            return load_series(position)
    return {key: inner(item) for key, item in plain.items()}


def _built(kind: Any, plain: Any) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        known = [f.name for f in dataclasses.fields(kind) if f.name in plain]
        return kind(**{name: _built(hints[name], plain[name]) for name in known})
    if typing.get_origin(kind) is tuple:
        return tuple(_built(item_kind, item) for item, item_kind in _hinted(tuple(plain), kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(plain)
    return plain
