"""What the tests of this directory share: an agent's working day in messages, and memories small enough to see it."""

from __future__ import annotations

from typing import Any

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, Msg
from autocontext.messages import is_note
from autocontext.testing import assistant, tool_exchange, user


def task(n: int, size: int = 20) -> list[Msg]:
    """One finished round: a question, a file read (`size` lines), an answer."""
    path = f"/srv/shop/module_{n}.py"
    output = f"price_{n} = net * 1.{n}  # see ticket SHOP-{4000 + n}\n" * size
    return [
        user(f"What does {path} compute?"),
        *tool_exchange("read_file", {"path": path}, output, id=f"call_{n}"),
        assistant(f"It computes price_{n}; ticket SHOP-{4000 + n} explains why."),
    ]


def day(tasks: int, size: int = 20) -> list[Msg]:
    """A day of finished rounds."""
    return [m for n in range(tasks) for m in task(n, size)]


def small(**fields: Any) -> AutoContextConfig:
    """A window of 2,000 tokens, thresholds to fit, and no patience with the model; `fields` override."""
    return AutoContextConfig(
        **{
            "max_token": 2_000,
            "msg_threshold": 1_000,
            "last_keep": 4,
            "large_payload_threshold": 600,
            "offload_single_preview": 80,
            "min_compression_token_threshold": 1,
            "model_retries": 0,
            "ledger_ratio": 0.0,
            **fields,
        }
    )


def rounds_only(**fields: Any) -> AutoContextConfig:
    """Strategy 4 alone: one question to the model per finished round but the last, and nothing without it."""
    return small(**{"strategies": ("rounds",), "max_token": 100_000, "last_resort": False, **fields})


def with_reports(memory: AutoContextMemory) -> list[CompressionReport]:
    """The reports of the memory's passes from now on."""
    reports: list[CompressionReport] = []
    memory.on_compression(reports.append)
    return reports


def notes(memory: AutoContextMemory) -> list[Msg]:
    """The notes in view."""
    return [m for m in memory.messages if m.origin is not None and (is_note(m) or m.origin.kind == "round_summary")]
