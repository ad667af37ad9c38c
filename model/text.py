"""Seeded text to train and prompt with: access logs, JSON records and Python code, as bytes.

Free of any licence, the same on every machine for one seed. Regular enough for a small model to learn, and
conditioned on its context (a block has one service, a user stays signed in, latency follows the path), so
that greedy output keeps moving. Must not import torch.
"""

import json
from random import Random

NAMES = [
    "ada", "alan", "barbara", "claude", "donald", "edsger", "frances", "grace", "hedy", "ivan", "john",
    "karen", "leslie", "margaret"
]
FAMILIES = [
    "allen", "baker", "clarke", "dijkstra", "euler", "fermat", "gauss", "hopper", "ito", "jones",
    "knuth", "lamport", "moore", "noether"
]
CITIES = [
    "athens", "berlin", "cairo", "dublin", "geneva", "kyoto", "lagos", "lima", "oslo", "prague",
    "quito", "tunis", "vienna", "zagreb"
]
SERVICES = ["api", "auth", "billing", "cart", "index", "mail", "search", "store"]
PATHS = {"/health": 2, "/login": 35, "/orders": 48, "/search": 120, "/items": 22, "/export": 900, "/users": 17}
NOUNS = [
    "batch", "block", "cache", "chunk", "count", "entry", "field", "group", "index", "item", "node",
    "offset", "path", "queue", "row", "token"
]
VERBS = [
    "add", "build", "check", "count", "drop", "fetch", "find", "load", "merge", "parse", "read",
    "store", "update", "write"
]


def generate(seed: int, num_bytes: int) -> bytes:
    """At least `num_bytes` of text, cut to that length."""
    random = Random(seed)
    parts: list[str] = []
    size = 0
    while size < num_bytes:
        parts.append(random.choice((log_block, log_block, json_block, code_block))(random))
        size += len(parts[-1])
    return "".join(parts).encode("ascii")[:num_bytes]


def prompts(seed: int, count: int, num_bytes: int = 64) -> list[list[int]]:
    """Byte ids of `count` excerpts, each from the start of a line of a text of its own."""
    text = generate(seed, 4096 * (count + 1))
    starts = [text.index(b"\n", 4096 * index) + 1 for index in range(count)]
    return [list(text[start : start + num_bytes]) for start in starts]


def log_block(random: Random) -> str:
    """One service on one day; time and request number rise; a user stays for a few lines."""
    service, day = random.choice(SERVICES), f"2026-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}"
    second, request = random.randint(0, 80_000), random.randint(100, 899)
    lines = []
    for _ in range(random.randint(3, 6)):
        user = random.choice(NAMES)
        for _ in range(random.randint(2, 5)):
            path = random.choice(list(PATHS))
            lines.append(log_line(random, f"{day} {clock(second)} {service} {request} {user}", path))
            second, request = second + random.randint(1, 4), request + 1
    return "\n".join(lines) + "\n\n"


def log_line(random: Random, head: str, path: str) -> str:
    status = random.choices((200, 404, 500), (18, 1, 1))[0]
    latency = PATHS[path] if status == 200 else 1
    note = {200: "ok", 404: "not found", 500: "internal error, retry"}[status]
    return f"{head} GET {path} {status} {latency}ms {note}"


def clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def json_block(random: Random) -> str:
    """A list of people of one city with rising ids; the address repeats the name."""
    city, number = random.choice(CITIES), random.choice((100, 200, 500, 700))
    records = []
    for index in range(random.randint(3, 8)):
        name, family = random.choice(NAMES), random.choice(FAMILIES)
        record = {"id": number + index, "name": f"{name} {family}", "mail": f"{name}.{family}@{city}.example"}
        records.append(json.dumps(record | {"city": city, "active": random.random() < 0.8}))
    return "[\n  " + ",\n  ".join(records) + "\n]\n\n"


def code_block(random: Random) -> str:
    return random.choice((loop_function, guard_function, small_class))(random)


def loop_function(random: Random) -> str:
    verb, noun = random.choice(VERBS), random.choice(NOUNS)
    return (
        f"def {verb}_{noun}s({noun}s, limit={random.choice((8, 16, 32, 64))}):\n"
        f"    result = []\n"
        f"    for {noun} in {noun}s:\n"
        f"        if len(result) >= limit:\n"
        f"            break\n"
        f"        result.append({verb}_{noun}({noun}))\n"
        f"    return result\n\n\n"
    )


def guard_function(random: Random) -> str:
    verb, noun = random.choice(VERBS), random.choice(NOUNS)
    return (
        f"def {verb}_{noun}({noun}):\n"
        f"    if {noun} is None:\n"
        f'        raise ValueError("{verb}_{noun}: no {noun}")\n'
        f"    return {noun}.{verb}()\n\n\n"
    )


def small_class(random: Random) -> str:
    noun, part = random.sample(NOUNS, 2)
    name = noun.capitalize()
    return (
        f"class {name}:\n"
        f"    def __init__(self, {part}s):\n"
        f"        self.{part}s = list({part}s)\n\n"
        f"    def {random.choice(VERBS)}_{part}(self, {part}):\n"
        f"        self.{part}s.append({part})\n"
        f"        return len(self.{part}s)\n\n\n"
    )
