"""Anthropic messages, both ways: the public place of `autocontext.formats.anthropic_messages`."""

from autocontext.formats.anthropic_messages import from_anthropic, request, system_of, to_anthropic

__all__ = ["from_anthropic", "request", "system_of", "to_anthropic"]
