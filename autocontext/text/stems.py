"""The stem of an English word: a light suffix stripper, and a table for the forms no rule can reach.

The rules are a shortened form of the suffix steps of Porter (1980): enough that the forms of one verb or noun meet,
not so much that different words do. What they miss, the character n-grams of `features` catch.
"""

from __future__ import annotations

import re
from functools import lru_cache

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
good better best; bad worse worst; analysis analyses; crisis crises; thesis theses; criterion criteria
datum data; index indices; matrix matrices; vertex vertices; die died dying; tie tied tying
mother mom mum mommy mama; father dad daddy papa; grandmother grandma granny; grandfather grandpa
photo photograph photos pic pics; television tv; bicycle bike; telephone phone; birthday bday
kid kids; favourite favorite; colour color; neighbour neighbor; centre center; theatre theater; grey gray
organise organize; realise realize; behaviour behavior; humour humor; travelling traveling; travelled traveled
database db; repository repo; configuration config; environment env; javascript js; typescript ts
kubernetes k8s; postgresql postgres; authentication auth; documentation docs; application app
"""

_VOWEL = re.compile(r"[aeiouy]")
_DOUBLED = re.compile(r"([bdfgklmnprt])\1$")
_ENDS = (
    ("ational", "at"), ("isation", "ize"), ("ization", "ize"), ("fulness", "ful"), ("ousness", "ous"),
    ("iveness", "ive"), ("tional", "tion"), ("lessly", "less"), ("ations", "at"), ("ation", "at"), ("ators", "at"),
    ("ator", "at"), ("ments", ""), ("ment", ""), ("nesses", ""), ("ness", ""), ("ingly", ""), ("edly", ""),
    ("ically", "ic"), ("fully", "ful"), ("ously", "ous"), ("ives", "iv"), ("ive", "iv"), ("ions", ""), ("ion", ""),
    ("ities", ""), ("ity", ""), ("ances", ""), ("ance", ""), ("ences", ""), ("ence", ""), ("ists", ""), ("ist", ""),
    ("isms", ""), ("ism", ""), ("ers", ""), ("er", ""), ("ors", ""), ("or", ""), ("able", ""), ("ible", ""),
    ("ally", "al"), ("ly", ""), ("ful", ""), ("al", ""), ("ize", ""), ("ise", ""),
)  # fmt: skip


@lru_cache(maxsize=65_536)
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
    if word.endswith(("xes", "ches", "shes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _verb(word: str) -> str:
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 2 and _VOWEL.search(base):
            return _DOUBLED.sub(r"\1", base) if len(base) > 3 else base
    return word


def _strip_suffix(word: str) -> str:
    for ending, instead in _ENDS:
        base = word.removesuffix(ending)
        if base != word and len(base) >= 4:
            word = base + instead
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("y") and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return _DOUBLED.sub(r"\1", word) if len(word) > 4 else word


def _irregular_stems() -> dict[str, str]:
    """Maps every irregular form to the stem of its word's regular forms."""
    stems: dict[str, str] = {}
    for group in _IRREGULAR_FORMS.replace("\n", ";").split(";"):
        forms = group.split()
        if forms:
            target = _strip_suffix(forms[0]) if len(forms[0]) > 3 else forms[0]
            stems.update(dict.fromkeys(forms, target))
    return stems


_IRREGULAR = _irregular_stems()


@lru_cache(maxsize=4_096)
def roots(stem: str) -> tuple[str, ...]:
    """Texts of which every word in lower case with this stem holds one."""
    # `stem` cuts words off, and changes no more than the last letter of what stays.
    own = stem[:-1] if len(stem) > 1 and stem.endswith(("y", "i", "iz")) else stem
    forms = (form.removesuffix("y") for form, target in _IRREGULAR.items() if target == stem)
    return tuple(dict.fromkeys((own, *forms)))
