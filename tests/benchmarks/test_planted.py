"""Planted constraints: every wording is used, the conversation stays valid, and a lost one is noticed."""

import json
from collections import Counter

import pytest
from chat import Tokens, invalid
from handover import Conversation
from planted import WORDINGS, known, planted
from policies import Everything, Truncate
from replays import DATA, conversations

from tests.notes.test_constraints import CONSTRAINTS

pytestmark = pytest.mark.repo

RECORDS = list(conversations([DATA]))


def test_an_own_set_of_wordings_in_five_languages():
    assert len(set(WORDINGS)) == len(WORDINGS) >= 30
    assert not set(WORDINGS) & set(CONSTRAINTS)
    everything = json.dumps([record["messages"] for record in RECORDS], ensure_ascii=False)
    assert not [wording for wording in WORDINGS if wording in everything]


def test_the_shared_conversations_use_every_wording():
    used = Counter()
    for number, record in enumerate(RECORDS):
        whole, where = planted(record["messages"], number)
        used.update(where.values())
        assert [m for i, m in enumerate(whole) if i not in where] == record["messages"]
        assert all(whole[place] == {"role": "user", "content": wording} for place, wording in where.items())
        assert invalid(whole) == invalid(record["messages"])
    assert set(used) == set(WORDINGS)


@pytest.mark.parametrize("text", ["{}", "m7: {}", "x\n{}\ny"])
def test_word_for_word(text):
    for wording in WORDINGS:
        assert known([wording], text.format(wording)) == 1
        assert known([wording], text.format(wording[:-3])) == 0
    assert known([WORDINGS[0]], WORDINGS[0].replace(" ", "\n")) == 1


def test_who_sends_everything_knows_all_of_them_and_who_truncates_does_not():
    count = Tokens()
    record = max(RECORDS[1:], key=lambda r: count(r["messages"]))
    conversation = Conversation(record["messages"], count, 0)
    assert conversation.replay_planted(Truncate(4_000, count), 4_000).value < 1
    whole = conversation.replay_planted(Everything(10**9, count), 10**9)
    assert (whole.of, whole.value) == (0, 0)  # no probes in a window that holds everything
    costs = conversation.replay(Everything(4_000, count), 4_000)
    assert costs.bill.calls > 0
