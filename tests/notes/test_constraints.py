"""What the user insists on once stands word for word in every later context."""

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.testing import user
from tests.test_replay import CONVERSATIONS

CONSTRAINTS = (
    "Do not send anything, only draft it.",
    "Never touch the tests.",
    "Stay under 500 EUR in total.",
    "Ask me before you delete anything.",
    "Use tabs, not spaces.",
    "Don't push to main.",
    "Please keep the public function names as they are.",
    "All dates have to be in ISO format.",
    "The deadline is Friday at noon.",
    "You may refund up to $50 without asking me.",
    "Leave config/prod.yaml alone.",
    "Reply in French from now on.",
    "No new dependencies.",
    "Make sure that every change has a test.",
    "Actually, forget the second point.",
    "Work on the branch feature/pool-7 only.",
    "Whatever happens, the server has to stay up.",
    "Prefer the morning flight with one bag.",
    "必须先备份数据库再修改。",
    "不要动测试目录下的任何文件。",
    "预算最多三千元。",
    "回复请用中文。",
    "削除する前に必ず確認してください。",
    "本番環境には触れないでください。",
    "테스트 파일은 절대 수정하지 마세요.",
    "예산은 50만 원까지입니다.",
    "No borres nada sin preguntarme antes.",
    "El importe no debe superar los 200 euros.",
    "Ne modifie jamais le fichier de configuration.",
    "Demande-moi avant d'envoyer le courriel.",
    "Bitte niemals direkt auf main pushen.",
    "Frag mich, bevor du etwas löschst.",
    "Não altere os testes, apenas o código.",
    "Responda sempre em português.",
    "Non cancellare mai i file di log.",
    "Usa soltanto la libreria standard.",
    "Никогда не трогай папку vendor.",
    "Сначала спроси меня, потом удаляй.",
)
PLACES = ("start", "early", "middle", "followed")
WINDOWS = (4_000, 16_000)
NAMES = sorted(CONVERSATIONS)


def lost(name: str, constraint: str, place: str, window: int) -> list[int]:
    """The lengths of the history at which a context did not hold the constraint."""
    messages = list(CONVERSATIONS[name])
    at = {"start": 1, "early": len(messages) // 5, "middle": len(messages) // 2, "followed": len(messages) // 3}[place]
    while at < len(messages) and messages[at].tool_results:
        at += 1  # not between a call and its results
    messages[at:at] = [user(constraint), *([user("Go on.")] if place == "followed" else [])]
    if place != "followed":
        messages.append(user("Go on."))
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    missing: list[int] = []
    step = max(1, len(messages) // 24)
    for i, msg in enumerate(messages):
        memory.add_message(msg)
        if i > at and (i % step == 0 or i == len(messages) - 1):
            shown = "\n".join(m.text for m in memory.get_messages() if m.role in ("user", "assistant"))
            if constraint not in shown:
                missing.append(i)
    return missing


def cases() -> list[tuple[str, str, str, int]]:
    """Each constraint once, each time in another conversation, at another place, in another window."""
    short = [name for name in NAMES if len(CONVERSATIONS[name]) < 70]
    return [
        (short[i % len(short)], constraint, PLACES[i % len(PLACES)], WINDOWS[i // 2 % len(WINDOWS)])
        for i, constraint in enumerate(CONSTRAINTS)
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "constraint", "place", "window"), cases())
def test_a_constraint_stands_in_every_later_context(name: str, constraint: str, place: str, window: int) -> None:
    assert lost(name, constraint, place, window) == []


KNOWN = {("pi_sessions/large-session", "middle", 4_000): {"Whatever happens, the server has to stay up."}}
"""What is lost: hundreds of messages later, some 40 newer instructions of the user have the room of the rules."""


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_no_constraint_is_lost_anywhere(name: str, place: str, window: int) -> None:
    # Two or three, in turns: each comes to each place in each window, and into eight conversations or more.
    turn = len(WINDOWS) * PLACES.index(place) + WINDOWS.index(window) + 5 * NAMES.index(name)
    missing = {c for c in CONSTRAINTS[turn % 18 :: 18] if lost(name, c, place, window)}
    assert missing == KNOWN.get((name, place, window), set())


@pytest.mark.slow
def test_several_constraints_in_one_message_all_stay() -> None:
    several = "Do not send anything, only draft it. Stay under 500 EUR.\nNever touch the tests. 必须先备份。 Use tabs."
    for name in NAMES[::6]:
        assert lost(name, several.split("\n", maxsplit=1)[0], "early", 4_000) == []
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    for i, msg in enumerate(CONVERSATIONS["sweagent/32df88-katy"]):
        memory.add_messages([msg, *([user(several), user("Go on.")] if i == 0 else [])])
        memory.get_messages()
    shown = "\n".join(m.text for m in memory.messages)
    for constraint in (
        "Do not send anything, only draft it.",
        "Stay under 500 EUR.",
        "Never touch the tests.",
        "必须先备份。",
    ):
        assert constraint in shown
