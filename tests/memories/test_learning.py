"""When a memory is made, and what a model's update does to a document."""

import copy
import time

import pytest

from autocontext.errors import StateError
from autocontext.memories import apply_update, memory_worth_making, parse_update, stale, suggested_tags, to_learn_from
from autocontext.memories.records import DAY, Memory
from autocontext.memories.updating import without_uploads
from autocontext.messages import Msg
from autocontext.testing import assistant, system, tool_exchange, user

NOW = 1_700_000_000_000


# ------------------------------------------------------------------------------------------------- creation rules
@pytest.mark.parametrize(
    ("text", "importance"),
    [
        ("Remember this: the gate code is 4711", 7),
        ("Can you keep this in mind?", 7),
        ("I prefer short answers.", 7),
        ("It is urgent that backups run", 9),
        ("My habit is to review at night", 8),
        ("I live in Oslo", 7),
        ("I go running every morning", 7),
        ("Every day I take the 7:40 train.", 7),
        ("我喜欢绿茶", 7),
        ("记住：周五开会", 7),
        ("私は犬が好きです", 7),
    ],
)
def test_worth_making(text, importance) -> None:
    made = memory_worth_making(text, "Noted.")
    assert (made.importance, made.content) == (importance, f"User: {text}\nAgent: Noted.")


@pytest.mark.parametrize(
    "text",
    [
        "What is the most important file?",
        "Fix the unimportant warnings",
        "The build always fails",
        "He sometimes calls",
        "patterned wallpaper",
        "run the tests",
        "",
        "Do I like tea?",
        "dislikeable",
        "我们开始吧",
    ],
)
def test_not_worth_making(text) -> None:
    assert memory_worth_making(text, "I always prefer important habits, remember this") is None


def test_the_threshold_is_honoured_and_tags_come_from_whole_words() -> None:
    assert memory_worth_making("I prefer tea", importance_threshold=8) is None
    assert memory_worth_making("It is critical: I prefer tea", importance_threshold=9).importance == 9
    assert suggested_tags("I love cooking, and I work in an office") == ("preference", "work", "food")
    assert suggested_tags("painting") == ("general",)
    assert len(suggested_tags("I love my job, live at home, hate the doctor, eat food every day with my wife")) == 5


@pytest.mark.slow
@pytest.mark.parametrize("word", ["i ", "upload ", "not "])
def test_creation_takes_no_long_time_over_odd_texts(word) -> None:
    """What takes the square of the length takes minutes."""
    text = word * 50_000
    start = time.thread_time()
    memory_worth_making(text)
    without_uploads(text)
    to_learn_from([user(text)])
    assert time.thread_time() - start < 10


# --------------------------------------------------------------------------------------------- learning from talk
def test_004_9_a_model_sees_what_was_said_and_final_answers() -> None:
    call, result = tool_exchange("read", {}, "SECRET")
    injected = Msg(role="user", content="<memory>", metadata={"_injected": "memory_context"})
    talk = [
        system("SYS"),
        injected,
        user("I use vim"),
        call,
        result,
        assistant("Noted"),
        user("ok!"),
        assistant("Fine"),
        user("a" * 600 + "b" * 600),
    ]
    learning = to_learn_from(talk)
    assert learning.text == "User: I use vim\nAssistant: Noted\nUser: " + "a" * 500 + "\n[...]\n" + "b" * 500
    assert learning.worth_asking
    assert not to_learn_from([user("thanks"), assistant("You are welcome")]).worth_asking


def test_004_9_corrections_and_reinforcements_of_the_last_six_messages() -> None:
    assert to_learn_from([user("No, that is wrong")]).corrected
    assert to_learn_from([user("That's exactly it, perfect")]).reinforced
    late = [user("不对"), *(m for n in range(3) for m in (user(f"step {n}"), assistant("done")))]
    assert not to_learn_from(late).corrected
    assert not to_learn_from([user("go on"), assistant("that is wrong")]).corrected


@pytest.mark.parametrize("reply", ['{"a": 1}', '```json\n{"a": 1}\n```', ' ```\n{"a": 1}``` '])
def test_004_9_code_fences_are_stripped(reply) -> None:
    assert parse_update(reply) == {"a": 1}


@pytest.mark.parametrize("reply", ["", "no", "[1]", "```json\n{```"])
def test_a_reply_that_is_none_changes_nothing(reply) -> None:
    with pytest.raises(StateError, match="memories are unchanged"):
        parse_update(reply)


def test_004_9_the_update_rules() -> None:
    before = {
        "user": {"workContext": {"summary": "old"}, "topOfMind": {"summary": "keep"}},
        "facts": [
            {"id": "f1", "content": "Likes tea", "confidence": 0.9},
            {"id": "f2", "content": "Old", "confidence": 0.9},
        ],
    }
    kept = copy.deepcopy(before)
    update = {
        "user": {
            "workContext": {"summary": "new", "shouldUpdate": True},
            "topOfMind": {"summary": "ignored", "shouldUpdate": False},
            "personalContext": {"summary": " ", "shouldUpdate": True},
        },
        "newFacts": [
            {"content": " likes TEA ", "confidence": 1.0},
            {"content": " ", "confidence": 1.0},
            {"content": "Guess", "confidence": 0.69},
            {"content": "Prefers vim. Uploaded the file x.pdf.", "category": "Preference", "confidence": 0.9},
            {"content": "Odd", "category": "nonsense", "confidence": 0.7},
            {"content": "Odd", "confidence": 0.8},
            "no fact",
            {
                "content": "Jo",
                "category": "correction",
                "confidence": 1,
                "sourceError": "Joe",
                "expected_valid_days": 9,
            },
        ],
        "factsToRemove": ["f2", "unknown"],
    }
    after = apply_update(before, update, now=NOW, source="t1")
    assert before == kept
    assert after["user"]["workContext"] == {"summary": "new", "updatedAt": after["lastUpdated"]}
    assert after["user"]["topOfMind"]["summary"] == "keep"
    assert "personalContext" not in after["user"]
    assert [(f["content"], f.get("category")) for f in after["facts"]] == [
        ("Likes tea", None),
        ("Prefers vim.", "preference"),
        ("Odd", "context"),
        ("Jo", "correction"),
    ]
    assert (after["facts"][1]["source"], after["facts"][3]["expected_valid_days"]) == ("t1", 9)
    assert after["facts"][2]["confidence"] == 0.7  # just enough; the later one is the same fact


def test_004_9_too_many_facts_keep_the_surest() -> None:
    before = {"facts": [{"id": f"f{i}", "content": f"fact {i}", "confidence": i / 10} for i in range(8)]}
    after = apply_update(before, {"newFacts": [{"content": "new", "confidence": 0.75}]}, now=NOW, max_facts=3)
    assert [f["content"] for f in after["facts"]] == ["fact 6", "fact 7", "new"]
    assert apply_update({}, {"newFacts": "x", "user": 3, "factsToRemove": None}, now=NOW)["facts"] == []


def test_004_9_sentences_about_uploads_are_left_out() -> None:
    assert without_uploads("Likes tea. The user uploaded two files. Is kind.") == "Likes tea. Is kind."
    assert without_uploads("用户上传了一个文件。喜欢茶。") == "喜欢茶。"
    assert without_uploads("Attached great importance to tea.") == "Attached great importance to tea."


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("Maintains the image upload service.", True),
        ("Uploads images every Friday.", True),
        ("Attaches great value to short documents.", True),
        ("维护图片上传服务。", True),
        ("The user uploaded two images.", False),
        ("I'm just uploading the file.", False),
        ("The attached document is a contract.", False),
        ("用户已上传一个文件。", False),
    ],
)
def test_only_an_upload_that_took_place_is_left_out(text, is_kept) -> None:
    assert without_uploads(text) == (text if is_kept else "")


@pytest.mark.parametrize("odd", [[1], 5, "x", None])
def test_an_update_of_an_odd_document_changes_what_can_be_read(odd) -> None:
    update = {"user": {"workContext": {"summary": "new", "shouldUpdate": True}}}
    after = apply_update({"user": odd, "history": odd, "facts": odd}, update, now=NOW)
    assert (after["user"]["workContext"]["summary"], after["history"], after["facts"]) == ("new", {}, [])


def test_a_confidence_that_a_model_writes_as_text_counts() -> None:
    facts = [{"content": "Lives in Rome", "confidence": "0.95"}, {"content": "Guess", "confidence": "high"}]
    after = apply_update({}, {"newFacts": facts}, now=NOW)
    assert [(f["content"], f["confidence"]) for f in after["facts"]] == [("Lives in Rome", 0.95)]


def test_004_10_staleness_review() -> None:
    def made(name: str, days: int, **fields) -> Memory:
        return Memory(id=name, user_id="u", content=name, created_at=NOW - days * DAY, **fields)

    old = [made(f"m{i:02}", 100 + i) for i in range(12)]
    assert [m.id for m in stale(old, NOW)] == [f"m{i:02}" for i in range(11, 1, -1)]
    assert stale(old[:2], NOW) == []
    fresh = [made("a", 100, last_confirmed_at=NOW), made("b", 100, category="correction"), made("c", 89), *old[:3]]
    assert [m.id for m in stale(fresh, NOW)] == ["m02", "m01", "m00"]
    days = {"expected_valid_days": 9}
    short = [
        made("due", 10, metadata=days),
        made("not yet", 8, metadata=days),
        made("correction", 10, metadata=days, category="correction"),
        made("no number", 10, metadata={"expected_valid_days": True}),
    ]
    assert [m.id for m in stale(short, NOW, at_least=1)] == ["due"]
