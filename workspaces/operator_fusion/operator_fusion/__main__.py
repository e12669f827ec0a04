"""Runs the verb on the command line."""

import sys

from .command import main

try:
    code = main()
except KeyboardInterrupt:
    print("interrupted; with --results, the same command goes on from here", file=sys.stderr)
    code = 130
except BrokenPipeError:
    code = 1
sys.exit(code)
