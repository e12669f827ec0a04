"""What the search for fusion plans prints."""

from __future__ import annotations

from typing import Any

PROGRESS: dict[str, Any] = {
    "strategy": "random",
    "seed": 0,
    "used": 8,
    "budget": 64,
    "best": {"plan": 41115, "time": 0.95},
}
ROW: dict[str, Any] = {
    "strategy": "random",
    "seeds": 1,
    "measurements": 64,
    "best": 0.95,
    "needed": None,
    "own_share": 0.01,
}
VERSUS: dict[str, Any] = {"strategy": "random", "plan": 1, "median": 1.01, "low": 1.0, "high": 1.02}
SUMMARY: dict[str, Any] = {
    "plan": 41115, "segments": "1 1 3 7", "time": 0.95, "against": "exact", "plotted": True, "rows": [ROW],
    "versus": [VERSUS],
}  # fmt: skip
