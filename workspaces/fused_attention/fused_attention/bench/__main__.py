import sys

try:
    from .command import main

    code = main()
except KeyboardInterrupt:
    print("interrupted; with --output, the same command goes on from here", file=sys.stderr)
    code = 130
sys.exit(code)
