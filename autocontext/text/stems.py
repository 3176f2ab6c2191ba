"""The stem of an English word: a light suffix stripper, and a table for the forms no rule can reach.

The rules are a shortened form of the suffix steps of Porter (1980): enough that the forms of one verb or noun meet,
not so much that different words do. They are repeated, so that "optimization", "optimized" and "optimizer" lose all
that parts them. What they miss, the character n-grams of `features` catch.
"""

from __future__ import annotations

import re

from autocontext.caches import cached

_IRREGULAR_FORMS = """
be am is are was were been being
have has had having
do does did done doing
go goes went gone going
say said; make made; take took taken; come came; see saw seen; know knew known; get got gotten; give gave given
find found; think thought; tell told; become became; leave left; feel felt; bring brought; begin began begun
keep kept; hold held; write wrote written; stand stood; hear heard; mean meant; meet met; run ran; pay paid
sit sat; speak spoke spoken; lie lay lain; lead led; grow grew grown; lose lost; fall fell fallen; send sent
build built; understand understood; draw drew drawn; break broke broken; spend spent; rise rose risen
drive drove driven; buy bought; wear wore worn; choose chose chosen; eat ate eaten; drink drank drunk
sing sang sung; swim swam swum; fly flew flown; teach taught; catch caught; sell sold; fight fought; seek sought
throw threw thrown; show shown; win won; sleep slept; forget forgot forgotten; forgive forgave forgiven
ride rode ridden; ring rang rung; sink sank sunk; steal stole stolen; swear swore sworn; tear tore torn
wake woke woken; hide hid hidden; bite bit bitten; blow blew blown; deal dealt; dig dug; feed fed; freeze froze frozen
hang hung; lend lent; light lit; shake shook shaken; shine shone; shoot shot; stick stuck; strike struck
sweep swept; bend bent; bind bound; bleed bled; breed bred; creep crept; dream dreamt; burn burnt; learn learnt
spell spelt; weave wove woven; wind wound; withdraw withdrew withdrawn; overcome overcame; undergo underwent
child children; man men; woman women; person people; foot feet; tooth teeth; mouse mice; goose geese
life lives; wife wives; knife knives; leaf leaves; shelf shelves; half halves; wolf wolves; loaf loaves
analysis analyses analyse analysed analysing analyser analyze analyzed analyzing analyzer
good better best; bad worse worst; crisis crises; thesis theses; criterion criteria
datum data; index indices; matrix matrices; vertex vertices; die died dying; tie tied tying
mother mom mum mommy mama; father dad daddy papa; grandmother grandma granny; grandfather grandpa
photo photograph photos pic pics; television tv; bicycle bike; telephone phone; birthday bday
kid kids; favourite favorite; colour color; neighbour neighbor; centre center; theatre theater; grey gray
organise organize; realise realize; behaviour behavior; humour humor; travelling traveling; travelled traveled
database db; repository repo; configuration config; environment env; javascript js; typescript ts
perform performant; summary summarise summarize summarization summarisation summarizer
kubernetes k8s; postgresql postgres; authentication auth; documentation docs; application app
"""

_VOWEL = re.compile(r"[aeiouy]")
_DOUBLED = re.compile(r"([bdfgklmnprt])\1$")
_DOUBLED_BY_VERB = re.compile(r"([bdfgkmnprt])\1$")
"""Without "ll": mostly it is the word's own, as in "install"."""
_SYLLABLES = re.compile(r"[aeiouy][^aeiouy]")
_ENDS = (
    ("ational", "ate"), ("isation", "ise"), ("ization", "ize"), ("fulness", "ful"), ("ousness", "ous"),
    ("iveness", "ive"), ("fication", "fi"), ("iser", "ise"), ("izer", "ize"), ("ability", ""), ("ibility", ""),
    ("tional", "tion"), ("lessly", "less"), ("ation", "ate"), ("ator", "ate"), ("ment", ""), ("ness", ""),
    ("ingly", ""), ("edly", ""), ("ically", "ic"), ("fully", "ful"), ("ously", "ous"), ("ive", ""), ("ion", ""),
    ("ity", ""), ("ance", ""), ("ence", ""), ("ancy", ""), ("ency", ""), ("ist", ""), ("ism", ""), ("er", ""),
    ("or", ""), ("able", ""), ("ible", ""), ("ally", "al"), ("ly", ""), ("ful", ""), ("al", ""), ("ize", ""),
    ("ise", ""), ("ate", ""),
)  # fmt: skip
_SHORTEST = 4
"""Letters that a suffix leaves."""


@cached(65_536)
def stem(word: str) -> str:
    """The stem of a lower-case word; words with anything but ASCII letters are returned unchanged."""
    irregular = _IRREGULAR.get(word)
    if irregular is not None:
        return irregular
    if len(word) <= 3 or not (word.isascii() and word.isalpha()):
        return word
    base = _singular(word)
    base = _IRREGULAR.get(base) or base
    base = _verb(base)
    return _IRREGULAR.get(base) or _strip_suffix(base)


def _singular(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("xes", "ches", "shes", "zzes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _verb(word: str) -> str:
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 2 and _VOWEL.search(base):
            if base.endswith(("at", "iz", "is")):  # of "-ate", "-ize": as they are without the ending
                return base + "e"
            return _DOUBLED_BY_VERB.sub(r"\1", base) if len(base) > 3 else base
    return word


def _strip_suffix(word: str) -> str:
    stripped = _without_suffix(word)
    while stripped != word:
        word, stripped = stripped, _without_suffix(stripped)
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("y") and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return _DOUBLED.sub(r"\1", word) if len(word) > 4 else word


def _without_suffix(word: str) -> str:
    for ending, instead in _ENDS:
        base = word.removesuffix(ending)
        if base != word and len(base) >= _SHORTEST:
            # "migrate" keeps what "generate" loses: "form" and "format" are two words.
            return word if ending == "ate" and len(_SYLLABLES.findall(base)) < 2 else base + instead
    return word


def _irregular_stems() -> dict[str, str]:
    """Maps every irregular form to the stem of its word's regular forms."""
    stems: dict[str, str] = {}
    for group in _IRREGULAR_FORMS.replace("\n", ";").split(";"):
        forms = group.split()
        if forms:
            target = _strip_suffix(forms[0]) if len(forms[0]) > 3 else forms[0]
            stems.update(dict.fromkeys(forms, target))
    return {**stems, **dict.fromkeys(("general", "generally"), "general")}  # not as "generate"


_IRREGULAR = _irregular_stems()


@cached(4_096)
def roots(stem: str) -> tuple[str, ...]:
    """Texts of which every word in lower case with this stem holds one; none of them holds another."""
    # `stem` cuts words off, and changes no more than the last letter of what stays.
    own = stem[:-1] if len(stem) > 1 and stem.endswith(("y", "i")) else stem
    forms = (form.removesuffix("y") for form, target in _IRREGULAR.items() if target == stem)
    found = dict.fromkeys((own, *forms))
    return tuple(root for root in found if not any(other in root for other in found if other != root))
