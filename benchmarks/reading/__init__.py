"""Contexts of several policies side by side, without names, for a reader who puts them in order.

    python -m benchmarks.reading lay DATA.jsonl --policy graded=graded.py:Graded --windows 4000 8000 16000 --to FOLDER
    python -m benchmarks.reading judge FOLDER '{"reading": "01", "order": ["B", "A", "C"], "reason": "..."}'
    python -m benchmarks.reading tell FOLDER

A measure is met by whatever satisfies it; a reader notices the rest. Run it from the root of the clone.
"""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
if str(BENCHMARKS) not in sys.path:
    sys.path.insert(0, str(BENCHMARKS))  # the benchmarks are scripts that import each other by name
