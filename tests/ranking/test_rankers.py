"""What every ranker promises, and what the ones shipped here find."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext.errors import ConfigError
from autocontext.ranking import Bm25Ranker, HybridRanker, InConversation, RelevanceRanker, TfidfRanker, default_ranker
from tests.profiles import share

RANKERS: dict[str, Callable[[], RelevanceRanker]] = {
    "tfidf": TfidfRanker,
    "bm25": Bm25Ranker,
    "hybrid": HybridRanker,
    "default": default_ranker,
}
ORIGINAL_EXAMPLE = {
    "pytest": "Prefers pytest for testing",
    "hints": "Likes type hints in Python",
    "expert": "Expert in Python",
    "docker": "Uses Docker for deployment",
}
anywhere = pytest.mark.parametrize("make", RANKERS.values(), ids=RANKERS.keys())
WORDS = [
    *["test", "tests", "pytest", "docker", "went", "go", "next.js", "c++", "测试", "テスト", "시험", "the", "的"],
    *["\x00", "�", "naïve", "2023", "ﬁle", "½", "a_b"],
]
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join) | st.text(max_size=30)
changes = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | texts), max_size=25)


def filled(make: Callable[[], RelevanceRanker], facts: dict[str, str]) -> RelevanceRanker:
    ranker = make()
    for key, text in facts.items():
        ranker.update(key, text)
    return ranker


@anywhere
@given(changes, texts)
@settings(max_examples=share(60))
def test_updates_in_any_order_leave_what_a_fresh_ranker_would_hold(make, made, query) -> None:
    worked, kept = make(), {}
    for key, text in made:
        worked.update(key, text)
        worked.scores(query)
        if text is None:
            kept.pop(key, None)
        else:
            kept[key] = text
    scores, fresh = worked.scores(query), filled(make, kept).scores(query)
    assert scores.keys() == fresh.keys() == kept.keys()
    assert scores == pytest.approx(fresh)


@anywhere
@given(st.dictionaries(st.sampled_from("abcdefgh"), texts, max_size=8), texts)
@settings(max_examples=share(60))
def test_scores_are_between_0_and_1_for_every_id(make, facts, query) -> None:
    scores = filled(make, facts).scores(query)
    assert scores.keys() == facts.keys()
    assert all(0.0 <= score <= 1.0 for score in scores.values())


@anywhere
def test_a_protocol_of_two_methods(make) -> None:
    assert isinstance(make(), RelevanceRanker)


@anywhere
@pytest.mark.parametrize("query", ["", "the of and", "どこ ですか", "?!", "what is it", "的"])
def test_a_query_of_stop_words_only_finds_nothing_and_raises_nothing(make, query) -> None:
    assert set(filled(make, ORIGINAL_EXAMPLE).scores(query).values()) == {0.0}
    assert filled(make, {"x": "the of and", "y": ""}).scores("pytest") == {"x": 0.0, "y": 0.0}
    assert make().scores("pytest") == {}


@anywhere
@pytest.mark.parametrize(
    "query", ["How do I write Python tests using pytest?", "Python tests?", "The user uses Python, tests and types"]
)
def test_the_examples_of_the_original_hold(make, query) -> None:
    scores = filled(make, ORIGINAL_EXAMPLE).scores(query)
    assert scores["docker"] == 0.0
    assert min(scores["pytest"], scores["expert"], scores["hints"]) > 0.0


@anywhere
def test_technical_names_stay_whole(make) -> None:
    facts = {
        "react": "Builds with React and Next.js",
        "c": "Learns C",
        "cpp": "Writes C++",
        "f": "Likes F#",
        "net": "Hates .NET",
    }
    ranker = filled(make, facts)
    for query, best in [
        ("Next.js app?", "react"),
        ("C++ book", "cpp"),
        ("f# or not", "f"),
        ("what about C", "c"),
        (".net", "net"),
    ]:
        scores = ranker.scores(query)
        assert max(scores, key=scores.__getitem__) == best
        assert sum(s > 0 for s in scores.values()) == 1, query


@anywhere
def test_chinese_japanese_and_korean_are_found_by_pairs_of_characters(make) -> None:
    facts = {
        "zh": "用户喜欢使用测试驱动开发",
        "zh2": "部署到云服务器",
        "ja": "京都で抹茶を買った",
        "ja2": "毎朝ジョギングする",
        "ko": "고양이를 두 마리 키운다",
        "ko2": "서울에서 일한다",
    }
    ranker = filled(make, facts)
    for query, best in [
        ("如何编写测试", "zh"),
        ("云服务器在哪里", "zh2"),
        ("抹茶はどこで買いましたか", "ja"),
        ("ジョギングはいつ", "ja2"),
        ("고양이 이름", "ko"),
    ]:
        scores = ranker.scores(query)
        assert max(scores, key=scores.__getitem__) == best


@anywhere
@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("Where did she go hiking", "We went on a hike"),
        ("which children", "a child"),
        ("pytest", "testing"),
        ("What did Ann buy?", "Ann bought a car"),
        ("ＡＰＩ", "the api"),
        ("don’t miss the photographer", "photography"),
        ("HttpServer", "an http server"),
    ],
)
def test_forms_of_one_word_meet(make, query, fact) -> None:
    assert filled(make, {"f": fact, "other": "zzz"}).scores(query)["f"] > 0


def test_bad_settings_are_named() -> None:
    for build, field in [
        (lambda: HybridRanker(k=0), "k must"),
        (lambda: HybridRanker([]), "rankers"),
        (lambda: InConversation(share=2), "share"),
    ]:
        with pytest.raises(ConfigError, match=field):
            build()


def test_a_foreign_ranker_joins_the_hybrid() -> None:
    class Longest:
        def __init__(self) -> None:
            self.kept: dict[str, str] = {}

        def update(self, id: str, text: str | None) -> None:  # noqa: A002 (the contract)
            self.kept[id] = text or ""

        def scores(self, query: str) -> dict[str, float]:
            return {key: len(text) / 100 for key, text in self.kept.items()}

    ranker = filled(
        lambda: HybridRanker([TfidfRanker(), Longest()]), {"a": "tea", "b": "coffee with milk", "c": "water"}
    )
    scores = ranker.scores("tea")
    assert scores["b"] > scores["c"] > 0
    assert scores["a"] > scores["c"]


def test_what_follows_a_question_gets_a_share_of_its_score() -> None:
    talk = {"1": "Ann: What did you bake?", "2": "Bob: A pie.", "3": "Ann: I saw a film.", "4": "Bob: Nice."}
    ranker, plain = filled(InConversation, talk), filled(TfidfRanker, talk)
    alone, together = plain.scores("What was baked?"), ranker.scores("What was baked?")
    assert alone["2"] < together["2"] == pytest.approx(alone["2"] + 0.3 * alone["1"])
    assert {k: v for k, v in together.items() if k != "2"} == {k: v for k, v in alone.items() if k != "2"}
    ranker.update("2", None)
    assert ranker.scores("What was baked?")["3"] > 0
    ranker.update("1", "Ann: I bake.")  # in its old place, and no question any more
    assert ranker.scores("What was baked?")["3"] == 0
