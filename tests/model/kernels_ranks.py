"""One of two ranks that decode with kernels: python kernels_ranks.py FOLDER, started with TRITON_INTERPRET=1.

Writes FOLDER/rank<r>.json: tokens by mode.
"""

import json
import sys
from pathlib import Path

from kernels_worker import MODES, PROMPTS, open_session

from model.evaluate import generate

NUM_TOKENS = 3


def main():
    folder = Path(sys.argv[1])
    session = open_session(folder, "triton", "cpu")
    found = {mode: generate(session, PROMPTS, NUM_TOKENS, mode)[0] for mode in MODES}
    (folder / f"rank{session.group.rank}.json").write_text(json.dumps(found))
    session.close()


if __name__ == "__main__":
    main()
