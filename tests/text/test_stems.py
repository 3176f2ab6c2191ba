"""The forms of one word meet, different words stay apart, and the search index finds what has a stem."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.text.stems import roots, stem

FAMILIES = """
optimize optimizes optimized optimizing optimization optimizer optimizers optimise optimises optimised optimisation
perform performs performed performing performance performances performer performant
configure configures configured configuring configuration configurations config
install installs installed installing installation installations installer
generate generates generated generating generation generator generators
document documents documented documenting documentation docs
migrate migrates migrated migrating migration migrations
deploy deploys deployed deploying deployment deployments
validate validates validated validating validation validator
implement implements implemented implementing implementation implementations
manage manages managed managing management manager managers
serialize serialized serializing serialization serializer serialise serialised
authenticate authenticated authenticating authentication auth
authorize authorized authorizing authorization authorisation
notify notifies notified notifying notification notifications
specify specifies specified specification specifications
verify verifies verified verification
secure secured secures securely security
available availability
depend depends depended dependency dependencies dependence
prefer prefers preferred preferring preference preferences
schedule schedules scheduled scheduling scheduler
repeat repeats repeated repeating
create creates created creating creation creator
organize organized organizer organization organise organisation
compute computes computed computing computation computer
analyze analyzes analyzed analyzing analyse analysis analyses
transform transforms transformed transformation transformer
translate translated translation translator
compile compiles compiled compiling compilation compiler
relate related relates relation relations relational
tokenize tokenized tokenizer tokenization token tokens
summarize summarized summarizes summary summaries summarization
operate operated operating operation operations operator operators operational
normalize normalized normalization normalisation
cancel cancels cancelled cancelling cancellation
test tests tested testing tester
"""
APART = """
general generate; form format; import important; state status; port report; policy police
install instance; prefer prefix; server several; operate opera
"""
_FAMILIES = [family.split() for family in FAMILIES.strip().split("\n")]
_APART = [words.split() for words in APART.replace("\n", ";").split(";") if words.strip()]
_ENDINGS = (
    "s es ed ing er ers ation ations ize ized izing ization izer ise ised isation ment able ability ly al ate ated"
)


@pytest.mark.parametrize("family", _FAMILIES, ids=lambda family: family[0])
def test_the_forms_of_one_word_have_one_stem(family: list[str]) -> None:
    assert {word: stem(word) for word in family} == dict.fromkeys(family, stem(family[0]))


def test_no_two_families_meet() -> None:
    assert len({stem(family[0]) for family in _FAMILIES}) == len(_FAMILIES)


@pytest.mark.parametrize("words", _APART, ids=" ".join)
def test_different_words_stay_apart(words: list[str]) -> None:
    assert [(a, b) for a, b in itertools.combinations(words, 2) if stem(a) == stem(b)] == []


letters = st.text("abdegilmnoprstuyz", min_size=1, max_size=9)
words = st.builds(str.__add__, letters, st.sampled_from(["", *_ENDINGS.split()])) | st.sampled_from(
    [word for family in _FAMILIES for word in family]
)


@given(words)
def test_a_word_holds_a_root_of_its_stem(word: str) -> None:
    """The search index looks for roots in the texts as they were written."""
    found = roots(stem(word))
    assert any(root in word for root in found)
    assert [(one, other) for one, other in itertools.permutations(found, 2) if one in other] == []


@given(
    letters, st.sampled_from(["ize izes ized izing ization izer", "ise ises ised ising isation iser"]).map(str.split)
)
def test_made_up_verbs_meet_their_nouns(beginning: str, endings: list[str]) -> None:
    verb = f"brod{beginning}{endings[0]}"
    assert {stem(verb.removesuffix(endings[0]) + ending) for ending in endings} == {stem(verb)}
