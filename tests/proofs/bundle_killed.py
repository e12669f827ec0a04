"""Kill `reprokit export` at random moments and repeat it: `python tests/proofs/bundle_killed.py --times 100`.

Run it from the checkout's root. It makes an image of 60 MB in the engine and removes it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from reprokit.engine import Engine
from tests.support.export_kills import kill_and_repeat
from tests.support.images import Images, noise

_FILES, _LAYERS = 12, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    images = Images(Engine.connect())
    try:
        name = images.base("base", {"a": noise(1 << 20, 1)})
        layers = [{f"{i}/{j}": noise(1 << 20, 99 * i + j) for j in range(_FILES)} for i in range(_LAYERS)]
        name = images.on(name, "killed", layers)
        with tempfile.TemporaryDirectory() as folder:
            seen = kill_and_repeat([name], Path(folder), chosen.times, chosen.seed)
    finally:
        images.close()
    print(", ".join(f"{what}: {count}" for what, count in sorted(seen.items())))


if __name__ == "__main__":
    main()
