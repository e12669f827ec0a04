"""`reprokit new --from` on a folder of 2000 Python files, beside Python's own parser: `make bench`.

Both are started in pairs, in alternating order, as in `measure.py`. Neither uses a network.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import Client, Measure, in_pairs

FILES = 2000
BODY = "import numpy as np\nfrom torch import nn\n" + "def f(x):\n    return np.sin(x) + 1\n" * 40
PARSED = (
    "import ast, pathlib\nfor path in pathlib.Path('repository').rglob('*.py'):\n    ast.parse(path.read_bytes())\n"
)
NO_INDEX = ("env", "PIP_CONFIG_FILE=/dev/null", "PIP_INDEX_URL=http://127.0.0.1:9/simple", "PIP_FIND_LINKS=")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="reprokit-performance-") as folder:
        home = Path(folder)
        (home / "recipes").mkdir()
        for number in range(FILES):
            path = home / "repository" / f"package{number % 40}" / f"module{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(BODY)
        (home / "repository/requirements.txt").write_text("numpy==1.26.4\ntorch==2.2.0\n")
        client = Client(str(Path(sys.executable).with_name("reprokit")), home)

        def imported() -> float:
            for made in (home / "recipes").iterdir():
                made.unlink()
            return client.seconds(
                *NO_INDEX, client.reprokit, "new", "big", "--from", "repository", "--as-of", "2024-03-01"
            )

        values = in_pairs(imported, lambda: client.seconds(sys.executable, "-c", PARSED), 5)
        print(Measure(f"new --from {FILES} files / ast.parse of them", "x", 3, values).line())


if __name__ == "__main__":
    main()
