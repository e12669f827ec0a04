"""The command as a process: Ctrl-C ends it without a traceback, also before and after the work."""

from __future__ import annotations

import gc
import os
from typing import NoReturn

from reprokit import interrupts


def main() -> NoReturn:
    """Run the command line. While its modules are imported there is nothing to clean up, so Ctrl-C just ends it."""
    interrupts.fatal()
    # What is imported stays: to look for garbage in it, here and at the end, would take a fifth of a verb's time.
    gc.set_threshold(100_000)
    # Else pydantic looks through all packages of the environment for plugins, and runs these.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from reprokit import cli

    cli.main()


if __name__ == "__main__":
    main()
