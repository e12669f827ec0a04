"""Names of what tests make in an engine that others use too."""

from __future__ import annotations

import os
import secrets

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")


def unique(kind: str) -> str:
    """`reprokit-test-KIND-WORKER-RANDOM`, which is also a valid recipe name."""
    return f"reprokit-test-{kind}-{WORKER}-{secrets.token_hex(3)}"
