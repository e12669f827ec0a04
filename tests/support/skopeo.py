"""skopeo, which reads what reprokit writes."""

from __future__ import annotations

import os
import subprocess


def skopeo(*arguments: str) -> str:
    """What skopeo prints; it must succeed."""
    # It gives the folders of an oci-archive to root: docs/bundles.md.
    root = () if os.geteuid() == 0 else ("unshare", "--map-root-user")
    return subprocess.run([*root, "skopeo", *arguments], capture_output=True, text=True, check=True).stdout
