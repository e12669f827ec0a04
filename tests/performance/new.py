"""`reprokit new --from` on a folder of 2000 Python files, beside Python's own parser: `make bench`.

Both are started in pairs, in alternating order, as in `measure.py`. Neither uses a network.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from measure import Client, Measure, in_pairs, report

FILES = 2000
BODY = "import numpy as np\nfrom torch import nn\n" + "def f(x):\n    return np.sin(x) + 1\n" * 40
PARSED = (
    "import ast, pathlib\nfor path in pathlib.Path('repository').rglob('*.py'):\n    ast.parse(path.read_bytes())\n"
)
NO_INDEX = ("env", "PIP_CONFIG_FILE=/dev/null", "PIP_INDEX_URL=http://127.0.0.1:9/simple", "PIP_FIND_LINKS=")


def measures(client: Client, options: argparse.Namespace) -> Iterator[Measure]:
    (client.home / "recipes").mkdir()
    for number in range(FILES):
        path = client.home / "repository" / f"package{number % 40}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(BODY)
    (client.home / "repository/requirements.txt").write_text("numpy==1.26.4\ntorch==2.2.0\n")
    command = (*NO_INDEX, client.reprokit, "new", "big", "--from", "repository", "--as-of", "2024-03-01")

    def imported() -> float:
        for made in (client.home / "recipes").iterdir():
            made.unlink()
        return client.seconds(*command)

    values = in_pairs(imported, lambda: client.seconds(sys.executable, "-c", PARSED), options.pairs)
    yield Measure(f"new --from {FILES} files / ast.parse of them", "x", 3, values)


if __name__ == "__main__":
    report(__doc__, measures, pairs=5)
