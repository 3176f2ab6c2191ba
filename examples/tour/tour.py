"""A tour of ten minutes: one agent, one long task, and what goes wrong in a day's work.

Offline, with a scripted model:    python examples/tour/tour.py
With a real one:                   OPENAI_API_KEY=sk-... python examples/tour/tour.py
(and OPENAI_BASE_URL, OPENAI_MODEL for any compatible service; needs the extras `openai` and `cli`)
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from scripted_model import served

HERE = Path(__file__).parent
TASK = (
    "Replace the flat tax rate of 1.19 in all modules of shop/ by tax.gross(net, country). "
    "Never touch shop/legacy, an auditor reads it. Run the tests of each module. Begin with todo()."
)
RECALL = "What was the first error of the tests, word for word, and what did I say about legacy?"
NAMES = [
    "basket", "bills", "bonus", "bundles", "carriers", "catalogue", "coupons", "credit", "delivery", "deposits",
    "discounts", "exports", "fees", "gifts", "imports", "invoices", "orders", "payments", "prices", "quotes",
    "refunds", "rental", "returns", "samples", "stock", "vouchers",
]  # fmt: skip
TAX = """RATES = {"DE": 1.19, "FR": 1.2, "JP": 1.1}


def gross(net, country):
    return round(net * RATES[country], 2)
"""
MODULE = '''"""{title} of the shop."""

from shop import tax

{rates}


def gross_{name}(net{parameter}):
    """The price of {name} with tax.

    >>> gross_{name}(100{argument})
    119.0
    """
    return round(net * 1.19, 2)
'''


def build(folder: Path) -> None:
    """The code that the agent works on."""
    (folder / "shop" / "legacy").mkdir(parents=True)
    (folder / "shop" / "tax.py").write_text(TAX, encoding="utf-8")
    (folder / "shop" / "legacy" / "old.py").write_text("def old(net):\n    return net * 1.19\n", encoding="utf-8")
    for k, name in enumerate(NAMES):
        alone = k % 6 == 1
        rates = "\n".join(f"LIMIT_{name.upper()}_{n} = {(k + 3) * (n + 7) % 97}" for n in range(60))
        text = MODULE.format(
            name=name, title=name.capitalize(), rates=rates,
            parameter="" if alone else ", country", argument="" if alone else ', "DE"',
        )  # fmt: skip
        (folder / "shop" / f"{name}.py").write_text(text, encoding="utf-8")


def agent(folder: Path, window: str, *arguments: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A process of the agent."""
    command = [sys.executable, str(HERE / "agent.py"), str(folder), window, *arguments]
    return subprocess.Popen(command, env={**os.environ, **environment})


def left(folder: Path) -> int:
    """Modules with the flat rate."""
    return sum("* 1.19" in p.read_text(encoding="utf-8") for p in (folder / "shop").glob("*.py"))


def step(number: int, title: str) -> None:
    """The heading of a stop."""
    print(f"\n{number}. {title}", flush=True)


def tour(office: Path, train: Path, environment: Mapping[str, str]) -> None:
    """All stops."""
    build(office)
    step(1, f"A task of {len(NAMES)} modules in a window of 8,000 tokens. A third is done, then the process is killed.")
    working = agent(office, "8k", TASK, environment=environment)
    while working.poll() is None and left(office) > len(NAMES) * 2 // 3:
        time.sleep(0.01)
    working.kill()
    working.wait()
    print(f"  killed with {left(office)} modules left")

    step(2, "The same command again: it goes on, without a second question, and stops after 24 requests.")
    agent(office, "8k", TASK, "--steps", "24", environment=environment).wait()
    print(f"  {left(office)} modules left")

    step(3, "The folder with agent.db moves to another machine, where the model's window is 4,000 tokens.")
    shutil.move(office, train)
    agent(train, "4k", environment=environment).wait()
    legacy = (train / "shop" / "legacy" / "old.py").read_text(encoding="utf-8")
    print(f"  {left(train)} modules left; shop/legacy is unchanged: {'1.19' in legacy}")

    step(4, "A question about the first hour, whose messages left the context long ago.")
    agent(train, "4k", RECALL, environment=environment).wait()

    step(5, "A page about all of it:")
    page = train / "report.html"
    command = [sys.executable, "-m", "autocontext", "report", str(train / "agent.db"), "tax", "-o", str(page)]
    subprocess.run(command, check=True)


def main() -> None:
    """The tour, in the folder that is named or in a new one."""
    home = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="tour-"))
    real = "OPENAI_API_KEY" in os.environ
    with nullcontext("") if real else served() as url:
        scripted = {} if real else {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "OPENAI_MODEL": "scripted"}
        tour(home / "office", home / "train", scripted)


if __name__ == "__main__":
    main()
