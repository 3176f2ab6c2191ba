"""`python -m autocontext`: the same as the console script."""

import sys

from autocontext.cli import main

if __name__ == "__main__":
    sys.exit(main())
