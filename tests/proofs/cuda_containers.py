"""Proves that the CUDA kernels compile on old toolchains: in containers of Debian's own CUDA, without a GPU.

    python tests/proofs/cuda_containers.py [bookworm|trixie|bullseye ...]

For each release, one after the other: builds its variant of the recipe fused-attention, compiles the extension in it
for every architecture of the issue that its nvcc knows, loads it, compares the CPU kernels with float64, prints
registers and spills of every CUDA kernel (inside.py does all that), and removes container and image. An image is 9 to
11 GB, and takes 6 minutes and more to build; --keep leaves it for another run. Needs a Docker Engine and 16 GB of disk,
and no GPU. Exit code 1 if a release failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reprokit.engine import Engine

ROOT = Path(__file__).resolve().parents[2]
RELEASES = {"bookworm": "cuda-debian12", "trixie": "cuda", "bullseye": "cuda-debian11"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the CUDA kernels in containers of old toolchains.")
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"of {', '.join(RELEASES)} (default: all)")
    parser.add_argument("--keep", action="store_true", help="leave the images")
    options = parser.parse_args()
    unknown = set(options.releases) - set(RELEASES)
    if unknown:
        parser.error(f"unknown release {', '.join(sorted(unknown))}; there are {', '.join(RELEASES)}")
    outcomes = {release: prove(RELEASES[release], options.keep) for release in options.releases or RELEASES}
    for release, outcome in outcomes.items():
        print(f"{release}: {outcome}")
    return int(any(outcome != "proven" for outcome in outcomes.values()))


def prove(variant: str, keep: bool) -> str:
    """What became of the release: "proven", or the step that failed."""
    target, container = f"fused-attention:{variant}", f"proof-{variant}"
    try:
        if reprokit("build", "--drift", target):
            return "the image did not build"
        with tempfile.TemporaryDirectory() as folder:
            # Copied: an edit during the half hour of a build would be proven in part.
            shutil.copytree(ROOT / "workspaces/fused_attention", folder, dirs_exist_ok=True)
            shutil.copy(Path(__file__).with_name("inside.py"), folder)
            mount = ["-v", f"{folder}:/proof:ro", "-e", "PYTHONPATH=/proof"]
            # A folder of the container's own: what is built there goes with it.
            cache = ["-e", "FUSED_ATTENTION_CACHE=/tmp/proof"]
            run = ["run", "--gpus", "none", "--name", container, *mount, *cache, target, "--"]
            return "the proof failed" if reprokit(*run, "python3", "/proof/inside.py") else "proven"
    finally:
        reprokit("rm", "--force", container)
        if not keep:
            Engine.connect().remove_image(f"reprokit/{target}", force=True)


def reprokit(*arguments: str) -> int:
    print("$ reprokit", *arguments, flush=True)
    started = time.monotonic()
    code = subprocess.run([sys.executable, "-m", "reprokit", *arguments], cwd=ROOT).returncode
    print(f"({time.monotonic() - started:.0f} s, exit code {code})", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
