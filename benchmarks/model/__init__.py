"""A small real model, run by llama.cpp on this machine: what it makes of contexts, and what it writes as summariser.

`setup.sh` installs it, `server.mjs` serves any GGUF file on 127.0.0.1, `likelihood.py` and `summarise.py` measure.
Not a part of the test suite. Run from the root of the clone: `python -m benchmarks.model.likelihood --help`.
"""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
if str(BENCHMARKS) not in sys.path:
    sys.path.insert(0, str(BENCHMARKS))  # the benchmarks are scripts that import each other by name
