"""Runs the real Otava on series from stdin (a JSON list of lists), its defaults; answers a JSON list of indices each.

Started by measure.py with the Python of an environment that holds apache-otava; imports nothing of this project.
"""

import json
import sys

from otava.analysis import compute_change_points


def main() -> None:
    series = json.load(sys.stdin)
    found = [sorted(int(point.index) for point in compute_change_points(one)[0]) for one in series]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
