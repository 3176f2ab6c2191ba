"""Removes secrets from texts: a ready hook for `AutoContextConfig(redact=redact_secrets)`."""

from __future__ import annotations

import re

_PATTERNS = (
    # Private keys, whole blocks.
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    # Keys with a fixed prefix: OpenAI, Anthropic and DashScope; GitHub and GitLab; Slack; Google; Stripe; registries.
    re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"),
    re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,})"),
    re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"),
    re.compile(r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,})"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    # JSON Web Tokens.
    re.compile(r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]*\beyJ)[A-Za-z0-9_-]{11,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}"),
)
# Each pattern looks at a run of characters once, from its beginning, so that the time stays linear.
# A value after a name such as `api_key`; the name stays, so that a summary can mention it.
_NAMED_VALUE = re.compile(
    r"""(?ix)(?<![\w-])(?=[\w-]*(?:api[_-]?key|secret|token|passw(?:or)?d|pwd|authorization|credential))
        ([\w-]++["']?\s*[:=]\s*["']?(?:bearer\s+)?)
        ([^\s"',;]{6,})"""
)
_IN_URL = re.compile(r"(://[^\s:/@]+:)([^\s@/]+)(?=@)")
REDACTED = "[redacted]"


def redact_secrets(text: str) -> str:
    """The text with "[redacted]" in place of anything that looks like a key, token or password."""
    for pattern in _PATTERNS:
        text = pattern.sub(REDACTED, text)
    text = _IN_URL.sub(rf"\1{REDACTED}", text)
    return _NAMED_VALUE.sub(rf"\1{REDACTED}", text)
