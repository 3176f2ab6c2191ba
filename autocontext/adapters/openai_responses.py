"""Items of the Responses API, both ways: the public place of `autocontext.formats.openai_responses`."""

from autocontext.formats.openai_responses import from_responses, to_responses

__all__ = ["from_responses", "to_responses"]
