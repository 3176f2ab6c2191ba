"""Keys come from arguments or the SDK's environment variables, and show up nowhere."""

import asyncio
import logging
import subprocess
import sys
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from autocontext.errors import ConfigError, ModelError
from autocontext.models import DashScopeChatModel
from autocontext.models.services import scrub
from tests.fakes import Close, Raw
from tests.models.offers import KEY, SERVICES, ask, model_class, service

BOTH = pytest.mark.parametrize("name", SERVICES)
VARIABLES = {"openai": "OPENAI_API_KEY", "dashscope": "DASHSCOPE_API_KEY"}


def shown(e):
    """All that a logger or crash reporter could write of an error, chained errors and local variables included."""
    seen, parts = set(), []
    while e is not None and id(e) not in seen:
        seen.add(id(e))
        report = traceback.TracebackException.from_exception(e, capture_locals=True)
        parts += [*report.format(), repr(e), repr(e.__dict__)]
        e = e.__cause__ or e.__context__
    return "\n".join(parts)


@BOTH
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("trouble", ["echoed key", "broken", "not JSON", "wrong key"])
def test_the_key_is_in_no_repr_log_or_traceback(name, how, trouble, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    for noisy in ("openai", "dashscope", "urllib3", "httpx2", "httpcore2", "aiohttp"):
        caplog.set_level(logging.DEBUG, logger=noisy)
    echo = {"error": {"message": f"bad key {KEY}", "code": "c"}, "code": "c", "message": f"Authorization: Bearer {KEY}"}
    items = {"echoed key": [Raw(400, echo)], "broken": [Close(), Close()], "not JSON": [Raw(200, KEY.encode())]}
    with service(name) as (fake, model):
        if trouble == "wrong key":
            fake.api_key = "another"
        fake.script(items.get(trouble, []))
        with pytest.raises(ModelError) as caught:
            asyncio.run(model.acomplete(ask())) if how == "async" else model.complete(ask())
    printed = capfd.readouterr()
    error = shown(_without_test_frames(caught.value))
    for text in (error, repr(model), str(model), str(vars(model)), printed.out, printed.err, caplog.text):
        assert "verysecret" not in text
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def _without_test_frames(e):
    """The error without the frames of this file, whose own variables hold the key."""
    tb = e.__traceback__
    while tb is not None and "/tests/" in tb.tb_frame.f_code.co_filename:
        tb = tb.tb_next
    return e.with_traceback(tb)


@BOTH
@pytest.mark.parametrize("key", ["", "  ", None])
def test_a_missing_key_is_told_at_once(name, key, monkeypatch):
    for variable in (*VARIABLES.values(), "DASHSCOPE_API_KEY_FILE_PATH"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=VARIABLES[name]):
        model_class(name)("m", api_key=key)


@BOTH
@pytest.mark.parametrize("key", ["sk-verysecret\nX-Header: 1", "sk-very secret", "sk-verysecré", "sk-verysecret\x00"])
def test_a_key_no_header_can_carry_is_refused_without_showing_it(name, key):
    with pytest.raises(ConfigError) as caught:
        model_class(name)("m", api_key=key)
    assert "secr" not in str(caught.value)


@BOTH
def test_the_key_from_the_environment(name, monkeypatch):
    monkeypatch.setenv(VARIABLES[name], KEY)
    with service(name) as (fake, _):
        model = model_class(name)("m", base_url=fake.base_url)
        assert model.complete(ask()).text == "SUMMARY"
        model.close()


def test_dashscopes_key_file(tmp_path, monkeypatch):
    (tmp_path / "key").write_text(KEY + "\n", encoding="utf-8")
    monkeypatch.delenv("DASHSCOPE_API_KEY", raising=False)
    monkeypatch.setenv("DASHSCOPE_API_KEY_FILE_PATH", str(tmp_path / "key"))
    with service("dashscope") as (fake, _):
        model = DashScopeChatModel("m", base_url=fake.base_url)
        assert model.complete(ask()).text == "SUMMARY"
        model.close()


@given(before=st.text(max_size=30), after=st.text(max_size=30))
def test_scrubbing_any_text(before, after):
    assert "Zx81kQ" not in scrub(f"{before}{KEY}{after}", SecretStr(KEY))


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: abcd1234efgh.",
        "sent Authorization: Bearer abcd1234efgh",
        '{"authorization": "Bearer abcd1234efgh"}',
        "api_key=abcd1234efgh",
        "sk-abcd1234efgh*****",
        "https://me:abcd1234efgh@host/v1",
    ],
)
def test_scrubbing_other_keys(text):
    assert "abcd1234" not in scrub(text, SecretStr("unrelated-key"))


@pytest.mark.slow
def test_importing_the_models_imports_no_sdk():
    code = (
        "import sys, autocontext.models as m; m.ExtractiveModel(); m.CallableModel(len);"
        "m.OpenAIChatModel('m', api_key='k'); m.DashScopeChatModel('m', api_key='k');"
        "print(sorted({'openai', 'dashscope', 'httpx', 'aiohttp', 'requests'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
@BOTH
def test_without_the_sdk_the_extra_is_named(name):
    model = SERVICES[name][1].__name__
    code = (
        f"import sys; sys.modules[{name!r}] = None\n"
        f"from autocontext.errors import MissingExtraError\nfrom autocontext.models import {model}\n"
        f"try: {model}('m', api_key='k')\nexcept MissingExtraError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install -e '.[{name}]'" in done.stdout
