"""Local servers that behave like the services, for tests with the real SDKs."""

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.dashscope_server import FakeDashScope
from tests.fakes.http_server import Close, Cut, Hang, Raw, Reply
from tests.fakes.openai_server import FakeOpenAI

__all__ = ["Close", "Cut", "FakeAnthropic", "FakeDashScope", "FakeOpenAI", "Hang", "Raw", "Reply"]
