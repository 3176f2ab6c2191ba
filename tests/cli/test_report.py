"""`autocontext report`: what the page is told, property by property, and the page itself in a real Chromium."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, Msg
from autocontext.cli import main
from autocontext.cli.figures import show_repeats
from autocontext.cli.report import data, render_page, script_json
from autocontext.cli.screen import Screen
from autocontext.cli.session_history import KINDS, SessionHistory
from autocontext.events import CallCounts, Repeats
from autocontext.stores import InMemorySessionStore, SessionKey, SqliteSessionStore
from autocontext.testing import ScriptedModel, conversation, tool_exchange, user
from tests.cli.browser import Browser, browser, required
from tests.cli.terminal import run
from tests.conversations import histories
from tests.keys import KEYS
from tests.production.agents import day, small
from tests.profiles import share

HOSTILE = (
    "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'><!-- <script> \u2028 \u2029 "
    "{{data}} {{js}} &lt; <iframe src=https://example.org></iframe> \x00 \x1b[31m \ud800 \u202etxt.exe"
)


class Case:
    """A memory with its store and the reports of its passes."""

    def __init__(self, config: AutoContextConfig, model: object = None) -> None:
        self.store = InMemorySessionStore()
        self.memory = AutoContextMemory(config, model, store=self.store, session_id="s", user_id="u")  # type: ignore[arg-type]
        self.reports: list[CompressionReport] = []
        self.memory.on_compression(self.reports.append)

    @property
    def history(self) -> SessionHistory:
        return SessionHistory(self.store.read(SessionKey("u", "s")), self.memory.counter)

    def data(self) -> dict[str, object]:
        return data(self.history, SessionKey("u", "s"), "agent.db", self.memory.counter)


def spread(ranges: list[list[int]]) -> list[int]:
    return [n for first, last in ranges for n in range(first, last + 1)]


# ---------------------------------------------------------------------------------------------- what the page is told
@pytest.mark.slow
@settings(max_examples=share(25))
@given(talk=histories(min_moves=6), keep=st.integers(0, 6), ledger=st.sampled_from([0.0, 0.15]))
def test_sizes_and_passes_are_those_the_memory_had(talk: list[Msg], keep: int, ledger: float) -> None:
    case = Case(small(max_token=900, msg_threshold=12, last_keep=keep, ledger_ratio=ledger))
    sizes, cached, last = [], 0, list[Msg]()
    for msg in talk:
        if msg.role == "assistant" and case.memory.messages:
            context = case.memory.get_messages()
            sizes.append(case.memory.token_count)
            same = itertools.takewhile(lambda pair: pair[0] is pair[1], zip(last, context, strict=False))
            cached += sum(case.memory.counter.count(m) for _, m in same)
            last = context
        case.memory.add_message(msg)
    case.memory.compress_if_needed(force=True)
    history = case.history
    changed = [r for r in case.reports if r]
    event(f"{len(changed)} passes")
    assert [(p.before, p.after, p.messages_before, p.messages_after, p.before - p.kept) for p in history.passes] == [
        (r.tokens_before, r.tokens_after, r.messages_before, r.messages_after, r.prefix_tokens_invalidated)
        for r in changed
    ]
    assert (history.sent.calls, history.sent.tokens) == (len(sizes), sum(sizes))
    assert history.sent.largest == max(sizes, default=0)
    assert history.size == case.memory.token_count
    assert history.full == sum(map(case.memory.counter.count, talk))
    assert [call[1] for call in history.calls] == sizes
    assert all(sum(call[3:]) == call[1] <= max(call[2], case.memory.config.max_token) for call in history.calls)
    assert history.sent.cached == cached
    check_ways_back(case)


def check_ways_back(case: Case) -> None:
    """Every original is in view, or behind the UUID that the page names, and what the page shows of a reload is it."""
    page_data = case.data()
    messages, states = page_data["messages"], page_data["states"]
    assert isinstance(messages, list)
    assert isinstance(states, list)
    originals = case.memory.get_original_memory_msgs()
    in_view = [m.id for m in case.memory.messages]
    for i, state in enumerate(states):
        if state == -1:
            assert originals[i].id in in_view
        elif state >= 0:
            assert originals[i] in case.memory.reload(messages[state]["uuid"])
        else:
            assert state == -2
    for one in page_data["passes"]:  # type: ignore[attr-defined]
        for edit in one["edits"]:
            numbers = spread(edit["reload"])
            assert len(numbers) == len(case.memory.reload(edit["uuid"]))
            assert max(numbers, default=0) < len(originals)


def test_what_was_removed_undone_and_cleared_is_followed() -> None:
    case = Case(small())
    case.memory.add_messages(day(12))
    assert case.memory.compress_if_needed(force=True)
    uuid = next(m.origin.uuid for m in case.memory.messages if m.origin is not None)
    assert case.memory.undo(uuid)
    case.memory.delete_message(len(case.memory.messages) - 1)
    page_data = case.data()
    assert page_data["size"] == case.memory.token_count
    assert page_data["states"].count(-2) == 1  # type: ignore[attr-defined]
    check_ways_back(case)
    case.memory.clear()
    case.memory.add_message(user("anew"))
    page_data = case.data()
    assert (page_data["originals"], page_data["size"]) == (1, case.memory.token_count)
    assert [edit["reload"] for p in page_data["passes"] for edit in p["edits"]] == [[]] * len(
        page_data["passes"][0]["edits"]
    )  # type: ignore[attr-defined,index]


def test_a_loaded_state_is_followed() -> None:
    first, second = Case(small()), Case(small())
    first.memory.add_messages(day(12))
    first.memory.compress_if_needed(force=True)
    second.memory.add_message(user("before"))
    second.memory.load_state_dict(first.memory.state_dict())
    assert second.history.size == first.memory.token_count
    assert second.history.full == first.history.full
    check_ways_back(second)


@pytest.mark.slow
def test_what_a_model_used_is_told() -> None:
    case = Case(small(), ScriptedModel("In short."))
    case.memory.add_messages(day(12))
    report = case.memory.compress_if_needed(force=True)
    assert report.model_calls
    edits = [e for p in case.data()["passes"] for e in p["edits"]]  # type: ignore[attr-defined]
    assert sum(e["model"][0] for e in edits) == report.usage.input_tokens
    assert sum(e["model"][1] for e in edits) == report.usage.output_tokens


def repeating() -> Case:
    """Ten tasks, a pass, then a reload, a file again, and another part of one."""
    case = Case(small())
    case.memory.add_messages(day(10))
    assert case.memory.compress_if_needed(force=True)
    for name, arguments in (
        ("context_reload", {"working_context_offload_uuid": "m2"}),
        ("read_file", {"path": "/srv/shop/module_1.py"}),
        ("read_file", {"path": "/srv/shop/module_2.py", "offset": 40}),
        ("write_file", {"path": "/srv/shop/module_2.py", "text": "price"}),
    ):
        case.memory.add_messages(tool_exchange(name, arguments, "text"))
    return case


def test_what_the_agent_repeats_is_what_the_memory_counts() -> None:
    case = repeating()
    assert case.history.repeats == case.memory.repeats()
    assert case.data()["repeats"] == {
        "before": {"calls": 10, "repeated": 0, "reread": 0, "reloads": 0},
        "after": {"calls": 4, "repeated": 1, "reread": 3, "reloads": 1},
    }


@pytest.mark.parametrize(
    ("repeats", "shown"),
    [
        (Repeats(), []),
        (Repeats(before=CallCounts(calls=10, repeated=2)), []),
        (
            Repeats(
                before=CallCounts(calls=10, repeated=1),
                after=CallCounts(calls=10, repeated=4, reread=3, reloads=2),
            ),
            [
                "4 of 10 calls within ten after a pass repeat an earlier one; 1 of 10 before.",
                "3 of 10 read again what was read before, 2 of them by reloading; 0 of 10 before.",
            ],
        ),
        (
            Repeats(after=CallCounts(calls=2_000, repeated=1, reread=1)),
            [
                "1 of 2,000 calls within ten after a pass repeats an earlier one; no calls before to compare with.",
                "1 of 2,000 reads again what was read before; no calls before to compare with.",
            ],
        ),
    ],
)
def test_what_the_agent_repeats_in_words(
    repeats: Repeats, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show_repeats(Screen(width=100, unicode=True), repeats)
    assert capsys.readouterr().out.splitlines() == shown


def test_notes_without_the_model_are_counted_once_for_line_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, page = str(tmp_path / "agent.db"), tmp_path / "report.html"
    store = SqliteSessionStore(db)
    memory = AutoContextMemory(small(), ScriptedModel(ValueError("no")), store=store, session_id="s")
    memory.add_messages(day(12))
    failed = memory.compress_if_needed(force=True).fallbacks
    store.close()
    assert failed > 0
    assert main(["report", db, "s", "-o", str(page)]) == 0
    assert f"The summarising model failed: {failed} notes" in capsys.readouterr().out
    page_data = json.loads(re.search(r'id="data">(.*)</script>', page.read_text())[1])  # type: ignore[index]
    assert page_data["fallbacks"] == failed


@pytest.mark.parametrize("kind", ["OpenAI key", "RSA private key", "GitHub personal token"])
def test_a_page_shows_secrets_only_if_asked(kind: str, tmp_path: Path) -> None:
    db, page, key = str(tmp_path / "agent.db"), tmp_path / "report.html", KEYS[kind]
    store = SqliteSessionStore(db)
    memory = AutoContextMemory(AutoContextConfig.for_window(1_500), store=store, session_id="s")
    memory.add_messages([user(f"Use {key}."), *tool_exchange("cat", {"key": key}, f"{'x' * 900}\n{key}\n"), *day(12)])
    memory.compress_if_needed(force=True)
    store.close()
    shown = key.replace("\n", "\\n")
    assert main(["report", db, "s", "-o", str(page)]) == 0
    assert shown not in page.read_text()
    assert "Use [redacted]." in page.read_text()
    assert main(["report", db, "s", "-o", str(page), "--secrets"]) == 0
    assert f"Use {shown}." in page.read_text()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None)) | st.just(HOSTILE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_embedded_data_come_back_and_end_nothing(value: object) -> None:
    text = script_json(value)
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)
    text.encode()


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        assert not {"src", "srcset", "background", "onclick", "onerror"} & {name for name, _ in attrs}
        assert all((value or "").startswith("#") for name, value in attrs if name == "href")


def test_the_page_holds_the_same_elements_whatever_was_said() -> None:
    plain, hostile = Case(small()), Case(small())
    plain.memory.add_message(user("hello"))
    hostile.memory.add_message(Msg(role="user", content=HOSTILE))
    hostile.memory.add_messages(tool_exchange(HOSTILE.replace("\ud800", ""), {HOSTILE: HOSTILE}, HOSTILE))
    tame = data(plain.history, SessionKey("u", "s"), "agent.db", plain.memory.counter)
    wild = data(hostile.history, SessionKey(HOSTILE, HOSTILE), HOSTILE, hostile.memory.counter)
    assert Elements(render_page(wild)).names == Elements(render_page(tame)).names


def test_the_script_makes_no_html_of_texts_and_loads_nothing() -> None:
    page = render_page(Case(small()).data())
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "XMLHttp",
        "import(",
    ):
        assert word not in page
    links = set(re.findall(r"https?://[^\s\"'<>]+", page))
    assert links == {"http://www.w3.org/2000/svg"}, "the name of SVG, which nobody loads"
    assert "default-src 'none'" in page


@pytest.mark.slow
def test_long_texts_are_cut_and_the_page_says_so() -> None:
    case = Case(AutoContextConfig.for_window(64_000))
    case.memory.add_messages(Msg(role="user", content=f"{i} " + "<&> word " * 400) for i in range(1_000))
    page_data = case.data()
    page = render_page(page_data)
    assert len(page.encode()) < 2_000_000
    assert page_data["cut"] == 1_000
    block = page_data["messages"][0]["blocks"][0]  # type: ignore[index]
    assert len(block[2]) == page_data["cap"]
    assert block[3] == 2 + 9 * 400


# -------------------------------------------------------------------------------------------------------- the command
@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sessions of all kinds: one of many compressions, a hostile one, a small one."""
    path = str(tmp_path_factory.mktemp("report") / "agent.db")
    store = SqliteSessionStore(path)
    config = AutoContextConfig.for_window(4_000)
    busy = AutoContextMemory(config, store=store, session_id="busy", user_id="ann")
    for msg in [m.model_copy(update={"id": f"b{i}"}) for i, m in enumerate(day(250, size=6))]:
        if msg.role == "assistant":
            busy.get_messages()
        busy.add_message(msg)
    hostile = AutoContextMemory(config, store=store, session_id=HOSTILE[:40], user_id="ann")
    hostile.add_messages(Msg(role="user" if i % 2 else "assistant", content=f"{i} {HOSTILE} " * 12) for i in range(30))
    hostile.compress_if_needed(force=True)
    AutoContextMemory(store=store, session_id="small").add_message(user("hello"))
    store.close()
    return path


def page_of(db: str, session: str, folder: Path, *more: str) -> Path:
    file = folder / "report.html"
    done = run("report", db, session, "-o", str(file), *more)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{file}: ")
    return file


@pytest.fixture(scope="module")
def busy(db: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page about the session of many compressions."""
    return page_of(db, "busy", tmp_path_factory.mktemp("busy"), "--user", "ann", "--window", "4000")


@pytest.mark.slow
def test_the_command_writes_one_page(busy: Path) -> None:
    page = busy
    assert page.stat().st_size < 2_000_000
    assert [f.name for f in page.parent.iterdir()] == ["report.html"]
    page_data = json.loads(re.search(r'id="data">(.*)</script>', page.read_text())[1])  # type: ignore[index]
    assert (page_data["originals"], page_data["window"], tuple(page_data["kinds"])) == (1_000, 4_000, KINDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{db}", "nowhere", "--user", "ann"], "has no session 'nowhere'"),
        (["{tmp}/none.db", "s"], "none.db: no such database file"),
        (["{db}", "small", "-o", "{tmp}/no/where.html"], "where.html: No such file or directory"),
    ],
)
def test_errors_are_one_line(db: str, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run("report", *(a.format(db=db, tmp=tmp_path) for a in arguments))
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_a_password_does_not_get_into_the_page() -> None:
    case = Case(small())
    case.memory.add_message(user("hello"))
    for url, shown in (
        ("postgresql://me:secret@db.example.org/a", "postgresql://me@db.example.org/a"),
        ("postgresql:///a?password=secret&user=me", "postgresql:///a?user=me"),
    ):
        page_data = data(case.history, SessionKey("u", "s"), url, case.memory.counter)
        assert page_data["db"] == shown
        assert "secret" not in render_page(page_data)


# -------------------------------------------------------------------------------------------------- in a real browser
@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    required()
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def check_quiet(chromium: Browser, page: Path) -> None:
    """The page asked for nothing but itself, and nothing went wrong in it."""
    assert chromium.requests == [page.resolve().as_uri()]
    assert chromium.errors == []
    assert chromium.js("document.documentElement.scrollWidth <= innerWidth")


TEXT = "document.querySelector('{}').innerText"


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (1280, False),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((390, False), (390, True), (1280, True))),
    ],
)
def test_the_page_at_all_widths_light_and_dark(chromium: Browser, busy: Path, width: int, dark: bool) -> None:
    chromium.show(busy, width=width, dark=dark)
    check_quiet(chromium, busy)
    ground = chromium.js("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) is dark
    assert "1,000 messages" in chromium.js(TEXT.format("#lead"))
    page_data = json.loads(chromium.js("document.getElementById('data').textContent"))
    assert chromium.js("document.querySelectorAll('#chart .dot').length") == len(page_data["passes"]) > 5
    assert chromium.js("document.querySelectorAll('#pass-list button').length") == len(page_data["passes"])
    chromium.js("document.getElementById('theme').click()")
    other = chromium.js("getComputedStyle(document.body).backgroundColor")
    assert other != ground
    chromium.resize(700)
    chromium.until("document.querySelector('#chart svg').getAttribute('viewBox').startsWith('0 0 6')")
    check_quiet(chromium, busy)


@pytest.mark.slow
def test_a_compression_shows_before_after_and_what_a_reload_gives(chromium: Browser, busy: Path, db: str) -> None:
    chromium.show(busy)
    page_data = json.loads(chromium.js("document.getElementById('data').textContent"))
    chromium.js("document.querySelectorAll('#chart .hit')[2].dispatchEvent(new MouseEvent('click'))")
    assert "Compression 3 of" in chromium.js(TEXT.format("#detail"))
    edit = page_data["passes"][2]["edits"][0]
    tabs = "document.querySelectorAll('#detail .edit')[0].querySelectorAll('[role=tab]')"
    pane = "document.querySelector('#detail .edit .pane')"
    chromium.js(f"{tabs}[0].click()")
    count = len(spread(edit["removed"]))
    assert chromium.js(f"{pane}.querySelectorAll('.msg').length") == min(30, count)
    chromium.js(f"{tabs}[1].click()")
    assert edit["uuid"] in chromium.js(f"{pane}.innerText")
    chromium.js(f"{tabs}[2].click()")
    text = chromium.js(f"{pane}.innerText")
    command = f"autocontext reload {db} {edit['uuid']} --session busy --user ann"
    assert command in text
    assert run(*command.split()[1:]).code == 0
    assert "byte for byte" in text


@pytest.mark.slow
def test_everything_can_be_reached_from_the_keyboard(chromium: Browser, busy: Path) -> None:
    chromium.show(busy)
    focused = "(document.activeElement.id || document.activeElement.className || document.activeElement.tagName)"
    reached = []
    for _ in range(14):
        chromium.press("Tab")
        reached.append(chromium.js(focused))
    assert {"theme", "chart"} <= set(reached)
    chromium.js("document.getElementById('chart').focus()")
    chromium.press("Home", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert "Compression 2 of" in chromium.js(TEXT.format("#detail"))
    assert chromium.js("document.querySelector('#said[role=status]').textContent").startswith("Compression 2 of")
    assert chromium.js("document.querySelector('#pass-list [aria-current=true]').innerText").startswith("2. ")
    assert chromium.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    chromium.press("Enter")
    assert chromium.js(focused) == "detail"
    chromium.press("Tab")
    assert chromium.js("document.activeElement.getAttribute('role')") == "tab"
    chromium.press("ArrowRight")
    assert chromium.js("document.activeElement.innerText") == "Reload"
    assert chromium.js("document.activeElement.getAttribute('aria-selected')") == "true"
    chromium.press("/")
    assert chromium.js(focused) == "search"
    chromium.press(*"SHOP-4123")
    assert chromium.js("document.getElementById('found').innerText").startswith("2 messages found")
    assert set(chromium.js("[...document.querySelectorAll('#list mark')].map(m => m.textContent.toLowerCase())")) == {
        "shop-4123"
    }
    chromium.press("Escape")
    assert chromium.js("document.getElementById('found').innerText").startswith("1,000 messages")


@pytest.mark.slow
def test_messages_tell_where_they_are_now(chromium: Browser, busy: Path) -> None:
    chromium.show(busy)
    page_data = json.loads(chromium.js("document.getElementById('data').textContent"))

    def chosen(state: str) -> str:
        chromium.js(
            f"document.getElementById('state').value = '{state}';"
            "document.getElementById('state').dispatchEvent(new Event('change'))"
        )
        return str(chromium.js("document.getElementById('found').innerText"))

    hidden = [s for s in page_data["states"] if s >= 0]
    assert chosen("view").startswith(f"{len(page_data['view']):,} message")
    assert chosen("removed").startswith("0 messages")
    assert chosen("behind").startswith(f"{len(hidden):,} message")
    chromium.js("document.querySelector('#list summary').click()")
    chromium.until("document.querySelector('#list .body')")
    text = chromium.js("document.querySelector('#list li').innerText")
    assert f"behind {page_data['messages'][hidden[0]]['uuid'][:8]}" in text
    assert page_data["messages"][hidden[0]]["uuid"] in text
    chromium.js("document.querySelector('#list .link').click()")
    assert chromium.js("document.activeElement.id") == "detail"


@pytest.mark.slow
def test_hostile_texts_stay_texts(chromium: Browser, db: str, tmp_path: Path) -> None:
    page = page_of(db, HOSTILE[:40], tmp_path, "--user", "ann")
    chromium.show(page)
    check_quiet(chromium, page)
    chromium.js("document.querySelectorAll('#list summary').forEach(s => s.click())")
    chromium.js("document.querySelectorAll('[role=tab]').forEach(t => t.click())")
    chromium.until("document.querySelectorAll('#list .body').length > 20")
    check_quiet(chromium, page)
    assert chromium.js("window.hurt === undefined")
    assert chromium.js("document.querySelectorAll('img, iframe').length") == 0
    assert chromium.js("document.querySelectorAll('script').length") == 2
    assert "<img src=x onerror='window.hurt = 2'>" in chromium.js("document.querySelector('#list pre').textContent")
    chromium.js(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hurt = 3'}))"
    )
    assert chromium.js("window.hurt === undefined"), "the page's policy lets no other script run"


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_shows_what_the_agent_repeats(chromium: Browser, tmp_path: Path, width: int) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_page(repeating().data()))
    chromium.show(page, width=width)
    check_quiet(chromium, page)
    rows = "[...document.querySelectorAll('#repeats tr')].map(r => [...r.children].map(c => c.innerText))"
    assert chromium.js(rows) == [
        ["", "before", "after"],
        ["The same tool with equal arguments", "0 of 10", "1 of 4"],
        ["Reads of what was read before", "0 of 10", "3 of 4"],
        ["Of these, by context_reload", "0 of 10", "1 of 4"],
    ]


@pytest.mark.slow
def test_a_session_without_compressions(chromium: Browser, db: str, tmp_path: Path) -> None:
    page = page_of(db, "small", tmp_path)
    chromium.show(page)
    check_quiet(chromium, page)
    assert "nothing had to be compressed" in chromium.js(TEXT.format("#lead"))
    assert "Calls made again" not in chromium.js("document.body.innerText")
    assert "null" not in chromium.js("document.body.innerText")
    assert "NaN" not in chromium.js("document.body.innerText")


@pytest.mark.slow
def test_ten_thousand_messages(chromium: Browser, tmp_path: Path) -> None:
    db = str(tmp_path / "large.db")
    store = SqliteSessionStore(db)
    memory = AutoContextMemory(AutoContextConfig.for_window(32_000), store=store, session_id="large")
    many = conversation(rounds=2_500, tools_per_round=1, chars=150)[:10_000]
    for start in range(0, len(many), 2_500):
        memory.add_messages(many[start : start + 2_500])
        memory.compress_if_needed(force=True)
    store.close()
    page = page_of(db, "large", tmp_path)
    chromium.show(page)
    check_quiet(chromium, page)
    assert "10,000 messages" in chromium.js(TEXT.format("#lead"))
    assert page.stat().st_size < 12_000_000
    chromium.js("document.getElementById('search').value = 'module_1234'")
    chromium.js("document.getElementById('search').dispatchEvent(new Event('input'))")
    assert chromium.js("document.getElementById('found').innerText").startswith("3 messages found")
    assert chromium.js("document.querySelectorAll('*').length") < 20_000
