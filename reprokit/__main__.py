"""The command as a process: Ctrl-C ends it without a traceback, also before and after the work."""

from __future__ import annotations

import gc
import os
from typing import NoReturn

from reprokit import interrupts


def main() -> NoReturn:
    """Run the command line. During imports there is nothing to clean up, so Ctrl-C ends the process."""
    interrupts.fatal()
    # Imported modules stay: collecting garbage among them would take a fifth of a verb's time.
    gc.set_threshold(100_000)
    # Else pydantic searches all packages for plugins, and runs them.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from reprokit import cli

    cli.main()


if __name__ == "__main__":
    main()
