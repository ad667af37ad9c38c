"""Every launch of the case in the order of time, as SVG: python -m benchmarks.case_phantom.plot OUT.svg

Reads the stored trials; needs matplotlib, which is not installed with perfguard.
"""

import argparse
from datetime import datetime
from pathlib import Path

from sqlite_utils import Database

ROOT = Path(__file__).resolve().parents[2]
# What ran, and which settings its sides had: (base, head).
CAMPAIGNS = {
    "20261130-181533-e7aa": ("yesterday", ("default", "default")),
    "20261130-181607-1c78": ("today", ("NCCL_PROTO=Simple", "NCCL_PROTO=Simple")),
    "20261130-095957-9771": ("two commits,\ntoday's setting", ("NCCL_PROTO=Simple", "NCCL_PROTO=Simple")),
    "20261130-181643-a908-q1": ("the setting\nback and forth", ("default", "NCCL_PROTO=Simple")),
    "20261130-100424-d73a": ("P2P on\nand off", ("default", "NCCL_P2P_DISABLE=1")),
}
LOOKS = {"default": ("#0072B2", "o"), "NCCL_PROTO=Simple": ("#D55E00", "^"), "NCCL_P2P_DISABLE=1": ("#009E73", "s")}
QUERY = """
    select started_at, side, json_extract(metrics, '$.tokens_per_second') as value from trials
    where campaign = ? and status = 'ok' and stage > 0 order by started_at
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--db", type=Path, default=ROOT / "results.db")
    asked = parser.parse_args()
    draw(Database(asked.db), asked.out)


def draw(db: Database, out: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    place, said = 0, set()
    for campaign, (title, settings) in CAMPAIGNS.items():
        rows = list(db.query(QUERY, (campaign,)))
        for row in rows:
            setting = settings[row["side"] == "head"]
            color, marker = LOOKS[setting]
            label = None if setting in said else setting
            axes.plot(place, row["value"], marker, color=color, markersize=5, label=label)
            said.add(setting)
            place += 1
        minutes = seconds_between(rows[0]["started_at"], rows[-1]["started_at"]) / 60
        axes.text(place - (len(rows) + 1) / 2, 585, f"{title}\n{minutes:.1f} min", ha="center", va="bottom", fontsize=8)
        axes.axvline(place + 0.5, color="#bbbbbb", linewidth=0.8)
        place += 2
    axes.set(ylim=(0, 580), ylabel="decode speed (token/s)", xlabel="launches, in the order they ran", xticks=[])
    axes.legend(loc="lower center", fontsize=8, frameon=False, ncols=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(out, metadata={"Date": None})


def seconds_between(first: str, last: str) -> float:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


if __name__ == "__main__":
    main()
