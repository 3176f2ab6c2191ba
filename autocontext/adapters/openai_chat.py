"""OpenAI chat messages, both ways: the public place of `autocontext.formats.openai_chat`."""

from autocontext.formats.openai_chat import from_openai, to_openai

__all__ = ["from_openai", "to_openai"]
