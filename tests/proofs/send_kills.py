"""Kill -9 at random moments of a transfer, of each part of it in turn; then the same command. Takes root and sshd.

    python tests/proofs/send_kills.py [--count 100] [--first SEED]

Each time: no half image at the node, the repeated command succeeds, and what had arrived is not sent again.
The suite does the same a few times (`tests/nodes/test_send_killed.py`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from reprokit.engine import Engine
from tests.support.cluster import cluster
from tests.support.images import Images
from tests.support.send_kills import clean, image, kill_and_repeat
from tests.support.sender import Sender


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=100)
    arguments.add_argument("--first", type=int, default=0)
    chosen = arguments.parse_args()
    os.environ["REPROKIT_CONFIG"] = os.devnull
    images = Images(Engine.connect())
    try:
        name = image(images)
        with cluster(1) as nodes, tempfile.TemporaryDirectory() as home:
            user = Sender(nodes, Path(home), PYTHONPATH=str(Path(__file__).parents[2]))
            for seed in range(chosen.first, chosen.first + chosen.count):
                print(f"{seed}: {kill_and_repeat(nodes['node1'], user, images, name, seed)}", flush=True)
                clean(nodes)
    finally:
        images.close()


if __name__ == "__main__":
    main()
