"""Kills the loader, and its engine, at random moments of a load, a hundred times by default: what was seen, as JSON.

    python tests/proofs/load_killed.py [--times 100] [--engine 20]

After each kill no image is half there, what is begun says so, and the repeated command succeeds. As root.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.load_kills import Killing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--engine", type=int, default=20, help="how many of them kill the engine")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        killing = Killing(Path(folder), chosen.seed)
        try:
            for number in range(chosen.times):
                if number * chosen.engine % chosen.times < chosen.engine:
                    killing.kill_engine()
                else:
                    killing.kill_loader()
        finally:
            killing.close()
    print(json.dumps(killing.seen, indent=2))


if __name__ == "__main__":
    main()
