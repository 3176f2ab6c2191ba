"""Splits the user's and the agent's texts into sentences and rates how much each matters for the further work.

Sentences are places in a text, not copies. The patterns cover English, Chinese, Japanese, Korean, Spanish, French,
German, Portuguese, Italian and Russian.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import NamedTuple

from autocontext.caches import cached
from autocontext.notes.values import known_values
from autocontext.text.caseless import Caseless
from autocontext.text.rendering import start_of_word

OUTPUT, GREETING, PASTE, ASIDE, PLAIN, CLAUSE, RULE = range(7)
"""Worth of a user's sentence, ascending: what a terminal printed; politeness; the inside of a long paste; any other of
a longer text, which may be pasted; any other that they have typed; an instruction, limit, permission or correction in a
longer text; the same in what they have typed."""

_SHORT, _OWN = 1_000, 500
"""Characters that a user types, and types above a paste: in a longer message something is pasted, as a rule."""
_PASTE = re.compile(r"^[ \t]*(?:[-=*_~]{3,}[ \t\r]*$|`{3}|[\"“„«「『>|])", re.MULTILINE)
"""Where a paste begins below the user's own words: a rule, a fence, a quote."""
_ANNOUNCED = re.compile(r"(?<=[:：])[ \t]*\r?\n[ \t]*\r?\n")
"""Where it may begin if it has no such sign: below a colon."""
_LONG, _PASTE_ENDS = 4_000, 1_500
"""Characters; a longer message of the user contains pasted text, but for so many at either end."""
_SEARCH_LIMIT, _MOST = 200_000, 400
"""Characters of one message that are searched, and most sentences of it."""
_LONGEST = 600
"""Characters; a longer stretch without an end is split."""
_BEGINNING = 16
"""Characters before the words that make an instruction, at most, if the sentence begins with it."""
_REMARKS, _LEAST_REMARK = 6, 20
"""Most sentences of one message of the agent, and bytes of one that says something: a character of Chinese says more
than a letter."""
_LONGEST_LIST, _NEAR = 2_000, 4
"""Characters before a list's item in which its heading is looked for, and lines below a list in which another item is.
"""
REMARK = 400
"""Characters of what the agent says that are told as one: a sentence, or a list's heading with its first items."""
_END = re.compile(
    r"[.!?。！？\n](?:(?<=\n)|(?<=[!?])(?=\s)|(?<=[。！？])(?![。！？])"
    r"|(?<=\.)(?=\s)(?<![\s.(][A-Za-z]\.)(?<!\b[DMSN]r\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\bbzw\.)(?<!\bca\.)(?<!\bvs\.)"
    r"(?!(?<=\d\.) [a-zäöü\d]))"
)
"""Not in "Dr. Weber", "z. B." and "until 16.03. at the latest". The sign comes first: it rules out most places."""
_LETTER = r"[^\s\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]"
_IN_WORD = re.compile(f"(?<={_LETTER}){_LETTER}")
"""A place in a word of a script with blanks between words."""

# Before long lists of words, a look at what they all begin with rules out most places at once.
_RULE = Caseless(
    r"""\b(?=[^\W\d_])(?:
        do\ not|does\ not|did\ not|don.?t|doesn.?t|never|without|avoid|must|mustn.?t|shall|should(?:n.?t|\ not)?
      | need(?:s)?\ to|ha(?:ve|s)\ to|may\ (?:not|only)|can(?:not|.?t|\ not|\ only)|only|always|until|unless|instead
      | rather\ than|except|at\ (?:most|least)|no\ (?:more|less|longer|need|new|other|further|external)
      | not\ (?:allowed|to|more|yet|the)|maximum|minimum|limit(?:ed)?|budget|deadline|require[sd]?|requirement|ensure
      | make\ sure|important|remember|from\ now\ on|forbidden|allowed|permission|approve[ds]?|go\ ahead|confirm(?:ed)?
      | under\ no|no\ matter|as\ long\ as|before\ (?:you|any|each|every|\w+ing)|ask\ (?:me|us|first)
      | prefer(?:red)?|either|actually|i\ meant|scratch\ that|forget|correction|wrong|stop|leave|keep|stick\ to
      | in\ total|up\ to|nothing\ but|exactly
      | nunca|siempre|solo|sólo|solamente|únicamente|debes?|deben|hasta|sin|en\ (?:lugar|vez)\ de|salvo|excepto|máximo
      | mínimo|evita|tienes?\ que|hay\ que|antes\ de|pregúnta(?:me|nos)
      | jamais|toujours|seulement|uniquement|doit|doivent|devez|il\ faut|jusqu|sans|au\ lieu|sauf|évite[rz]?|pas
      | avant\ (?:de\b|d.)|demandez?.moi
      | niemals|nie|immer|nur|keine?[nmrs]?|nicht|muss|müssen|musst|soll(?:st|en|te)?|bis|ohne|statt|stattdessen|außer
      | höchstens|mindestens|darf(?:st)?|bevor|zuerst|frage?\ mich
      | não|sempre|só|apenas|somente|deve[ms]?|até|sem|em\ vez|exceto|evite|pergunte
      | non|mai|soltanto|devi|deve|devono|finché|senza|invece|tranne|massimo|prima\ di|chiedimi
      | не|никогда|всегда|только|должн\w{0,4}|нельзя|пока|без|вместо|кроме|максимум|нужно|обязательно|сначала
      | спроси\w{0,2}|перед\ тем|прежде )\b
      | ^\W*(?:please\ )?(?:use|reply|respond|answer|follow|treat|assume|format|name|tell\ me|report|write\ all
      |call\ it)\b
      | ^\W*no\ (?!thanks|thank|problem|worries|idea)\w+\b(?!,)
      | \b(?:no|not)\b\ \w+\ (?:please|at\ all)
      | \d\ ?(?:%|€|\$|£|usd|eur|dollars?|euros?|gb|mb|kb|ms|seconds?|minutes?|hours?|days?|weeks?|months?
        |tokens?|lines?|characters?|words?|times|people|passengers?|bags?|percent)(?![a-z])
      | [$€£¥]\ ?\d
      | (?=[^\x00-\x7f])(?:
        不要|不能|不得|不许|不可|不用|不准|别|勿|禁止|必须|必需|务必|只能|只|仅|一定|始终|总是|永远|从不|直到
      | 除非|而不是|改为|改成|改用
      | 至少|最多|不超过|以内|之前|请用|应该|应当|需要|以后|记住|注意|保持|优先|允许|可以|确认|其实|不对
      | ないで|しない|禁止|必ず|だけ|のみ|常に|まで|以外|代わり|なければ|べき|ください|許可
      | 하지\ ?마|지\ ?마세요|말고|말아|반드시|항상|절대|까지|대신|제외|만\ |해야 )""",
    re.VERBOSE,
)
_POLITE = Caseless(
    r"""(?:\W* (?: (?:hi|hello|hey|there|all|everyone|thanks?|thx|thank|you.?re|you|your|so|very|really|much|a\ lot
      |for|the|help|helping|ok|okay|great|good|morning|afternoon|evening|night|day|bye|goodbye|cheers|welcome|perfect|cool|nice
      |awesome|excellent|wonderful|have|an?|weekend|too|again|in\ advance|how\ are|see\ you|wow|never\ mind|hola
      |buenos|buenas|días|tardes|noches|muchas|gracias|bonjour|bonsoir|salut|merci|beaucoup|bien|hallo|guten
      |tag|morgen|abend|vielen|dank|danke|schön|sehr|olá|bom|boa|dia|tarde|noite|muito|obrigad[oa]|ciao
      |buongiorno|grazie|mille
      |привет|здравствуйте|спасибо|большое|добрый|день)\b
      | 你好|您好|谢谢|多谢|感谢|早上好|下午好|晚上好|再见|辛苦|大家|好的|非常|帮助|帮忙|你|您|了|啊|呀|们|好|嗯|的|很
      | こんにちは|こんばんは|おはよう|ありがとう|ございま(?:す|した)|どうも|よろしく
      | お願いします|お疲れ様(?:です|でした)?|はい
      | 안녕(?:하세요)?|감사(?:합니다|해요)?|고마워요?|고맙습니다|네|좋아요 ) ){1,14} \W*""",
    re.VERBOSE,
)
"""Only polite words, unlike "Great, now delete it"."""
_CUES = {
    "en": r"because|since|root cause|so that|therefore|thus|hence|turns? out|decided|decision|found|means that|instead"
    r"|rather than|confirm(?:s|ed)|must|should|needs? to|cannot|can.?t|(?:do|does|did|is|are|was|were)(?: not|n.?t)"
    r"|only|already|missing|expects?|wrong|correct|works?|fixed|plan|next step|conclusion"
    r"|the (?:issue|problem|bug|cause|reason|fix|error|solution)",
    "de": r"weil|deshalb|daher|ursache|grund|problem|fehler|entschieden|stattdessen|muss|sollte|fehlt|plan|nicht"
    r"|keine?\w?",
    "fr": r"parce que|donc|cause|raison|problème|décidé|au lieu|doit|faut|manque|pas",
    "es": r"porque|por eso|causa|razón|problema|decidido|en lugar|debe|falta|no",
    "pt": r"porque|portanto|causa|razão|problema|decidi|em vez|deve|falta|não",
    "it": r"perché|quindi|causa|ragione|problema|deciso|invece|deve|manca|non",
    "ru": r"потому|поэтому|причин\w*|проблем\w*|решил\w*|вместо|нужно|должн\w*|не|нет",
}
"""By language, words in sentences that give a reason, a finding, a decision or a plan. They only choose."""
_CUE = Caseless(
    rf"\b(?=[^\W\d_])(?:{'|'.join(_CUES.values())})\b"
    r"|(?=[^\x00-\x7f])(?:因为|所以|原因|问题|决定|下一步|发现|需要|因此|应该|必须|没有|没找到|未|原因は|ため|なので|問題|べき"
    r"|ません|때문|그래서|문제|없)",
)
_HYPOTHETICAL = Caseless(
    r"\b(?:let.?s (?:say|assume|imagine|suppose)|suppose|imagine|assum(?:e|ing)|hypothetical\w*|what if|angenommen"
    r"|supongamos|supposons|supponiamo|предположим)\b|假设|如果说|仮に|가정",
)
_ANNOUNCEMENT = Caseless(
    r"""\W*(?:(?:now|first|next|then|okay|ok|alright|great|good|perfect|sure|so)\W+){0,2}
      (?:let\ me|let.?s|i.?ll|i\ will|i.?m\ going\ to|i\ am\ going\ to|i\ (?:should|need\ to|want\ to)\ see
      |i\ (?:should|need\ to|can|want\ to)\ (?:now|first|check|look|view|start)
      |we.?ll|we\ will|time\ to|让我|我来|我先|接下来我|现在我)""",
    re.VERBOSE,
)
_CONSEQUENCE = Caseless(r"(?:therefore|thus|hence|so|consequently|this means|as a result)\b|因此|所以")
"""The beginning of a sentence that needs the one before it."""
_ITEM = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s")
"""The beginning of a list's item."""
_NUMBERED = re.compile(r"\s*\d{1,3}\.")
COLONS = (":", "：", ":**")
QUESTION_MARKS = ("?", "？", "؟")
LONGEST_OF_AGENT = 20_000
"""Characters of one message of the agent that are read."""


class Sentence(NamedTuple):
    """A stretch of a message's text."""

    start: int
    stop: int
    worth: int


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence, without surrounding blanks; a newline ends a sentence."""
    start = 0
    ends = (m.end() for m in _END.finditer(text, 0, _SEARCH_LIMIT))
    for stop in (*ends, min(len(text), _SEARCH_LIMIT)):
        if _NUMBERED.fullmatch(text, start, stop):
            continue  # "1." belongs to what follows
        while start < stop:
            end = _piece_end(text, start, stop)
            piece = text[start:end]
            if piece.strip():
                yield end - len(piece.lstrip()), start + len(piece.rstrip())
            start = end


def _piece_end(text: str, start: int, stop: int) -> int:
    """The end of a sentence, or of its first piece if it is too long: after a blank or a word if there is one."""
    if stop - start <= _LONGEST:
        return stop
    half = start + _LONGEST // 2
    blank = max(text.rfind(" ", half, start + _LONGEST), text.rfind("\t", start, start + _LONGEST))
    if blank >= 0:
        return blank + 1
    end = start_of_word(text, start + _LONGEST, half)
    return end if end > half else start + _LONGEST


_OBSERVATION = re.compile(
    r"\s*(?:<(?:returncode|[\w-]*(?:output|stdout|stderr)|observation|tool_response|tool_result|function_results?)\b"
    r"|OBSERVATION\b|Observation:|EXECUTION RESULT|\[?(?:Command|Tool|Function|Execution) (?:output|result"
    r"|response)s?\b)"
)
"""The beginning of a tool's output that an agent without tool messages gets as the user's."""


_PROMPT = re.compile(r"\n(?:(?:PS )?[^\s<]{0,40}[@:~\\-][^\s<]{0,40})?[$#>]{1,3}\s{0,9}\Z")
"""The prompt of a shell as the last line: an agent without tool messages gets what its command printed so."""
_RULES_OF_TERMINAL = 2
"""Lines like an instruction in what a terminal prints, at most: "Please review the changes"."""


_DIFF = re.compile(
    r"^(?:diff --git |@@ -\d).*(?:\n(?:[-+ @\\]|diff --git |index |new file|deleted file|similarity|rename |$).*)*",
    re.MULTILINE,
)
"""A diff that a user pasted: its lines are code, also where a comment sounds like a rule."""


_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})[^`\n]*$.*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
"""What a user put between fences: code, a log, a page."""
_LONGEST_TASK, _EXAMPLE = 2_000, 400
"""Characters of such a text that may be the user's own words, and of one that is no paste but an example."""
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


class Pasted(NamedTuple):
    """Lines of a user's message, without the blanks around them."""

    examples: frozenset[str]
    """Those of short texts between fences: what the user's words are about, and part of them."""
    others: frozenset[str]
    """Those of longer texts between fences, and of diffs."""


def pasted_lines(text: str) -> Pasted:
    """The lines of a user's message that stand between fences or in a diff, but for short texts of sentences.

    Programs that write prompts put a task between fences.
    """
    fenced = [m[0] for m in _FENCED.finditer(text) if len(m[0]) > _LONGEST_TASK or not _is_told(m[0])]
    longer = [m[0] for m in _DIFF.finditer(text)] + [part for part in fenced if len(part) > _EXAMPLE]
    others = frozenset(line.strip() for part in longer for line in part.split("\n"))
    examples = frozenset(line.strip() for part in fenced if len(part) <= _EXAMPLE for line in part.split("\n"))
    return Pasted(examples - others, others)


def _is_told(fenced: str) -> bool:
    """Whether the lines between fences are mostly sentences."""
    lines = [line.strip() for line in fenced.split("\n")[1:] if any(map(str.isalnum, line))]
    told = sum(line.endswith(_SENTENCE_ENDS) and _is_prose(line) for line in lines)
    return 2 * told > len(lines)


def of_piece(piece: str) -> int:
    """Worth of a line or sentence of a user's message by its words alone: PASTE for code and logs."""
    return _worth(piece[: 2 * _LONGEST]) if _is_prose(piece) else PASTE


@cached(512)
def of_user(text: str) -> tuple[Sentence, ...]:
    """The sentences of a user's message."""
    result: list[Sentence] = []
    is_long, is_paste = len(text) > _SHORT, len(text) > _LONG
    paste = _PASTE.search(text, 0, _OWN) or _ANNOUNCED.search(text, 0, _OWN)
    typed = paste.start() if paste else 0  # of a long message, by the user above what they have pasted
    printed = is_output(text)
    diffs = [match.span() for match in _DIFF.finditer(text, 0, _SEARCH_LIMIT)]
    for start, stop in sentences(text):
        if _IN_WORD.match(text, start) or _IN_WORD.match(text, stop):
            continue  # a piece of data without blanks
        while diffs and diffs[0][1] <= start:
            del diffs[0]
        in_diff = bool(diffs) and diffs[0][0] <= start
        worth = OUTPUT if printed else PASTE if in_diff else _worth(text[start:stop])
        if is_long:  # a pasted rule must not stand for the user's, even where their words seem to end
            worth = {RULE: CLAUSE, PLAIN: PLAIN if stop <= typed else ASIDE}.get(worth, worth)
        if is_paste and worth == ASIDE and _PASTE_ENDS < start < len(text) - _PASTE_ENDS:
            worth = PASTE
        result.append(Sentence(start, stop, worth))
    best = sorted(result, key=lambda s: (-s.worth, s.start))[:_MOST]
    return tuple(sorted(best))


def is_output(text: str) -> bool:
    """Whether a message in the user's role is what a terminal has printed, up to its prompt, or marked as output.

    A task may end with a prompt, too.
    """
    if _OBSERVATION.match(text) is not None:
        return True
    if _PROMPT.search(text, max(0, len(text) - _LONGEST)) is None:
        return False
    rules = sum(_worth(text[start:stop]) == RULE for start, stop in sentences(text))
    return rules <= _RULES_OF_TERMINAL


_EMPHATIC = re.compile(r"[!！][\W_]*\Z")
"""The end of an exclamation: what a user says so, in any language, is meant to be kept."""


def _worth(sentence: str) -> int:
    if len(sentence) < 60 and _POLITE.fullmatch(sentence):
        return GREETING
    is_rule = _RULE.search(sentence) is not None or (" " in sentence and _EMPHATIC.search(sentence) is not None)
    return RULE if is_rule and _is_prose(sentence) else PLAIN


def begins_with_rule(sentence: str) -> bool:
    """Whether a sentence begins with its instruction or limit, as opposed to a story that has one in it."""
    found = _RULE.search(sentence, 0, 2 * _BEGINNING)
    return found is not None and found.start() <= _BEGINNING


_LISTING = re.compile(r"\W*\d+\s?[:|]|[\[(](?:File|Open|Current|\d)|\W*(?:\w+/){2}|Requirement already|@@ |//|/\*")
"""The beginning of a line of a listing or a log."""


_LETTERS = string.ascii_letters.encode()
_BLANKS_AND_DIGITS = bytes(i for i in range(128) if chr(i).isspace() or chr(i).isdigit())


def _is_prose(sentence: str) -> bool:
    """Whether a line is prose, not code or a log."""
    if _LISTING.match(sentence):
        return False
    if not sentence.isascii():
        return True
    ascii_signs = sentence.encode()  # `bytes.translate` counts a hundred times as fast as a loop
    signs = len(ascii_signs.translate(None, _BLANKS_AND_DIGITS))
    letters = len(sentence) - len(ascii_signs.translate(None, _LETTERS))
    ends_as_code = sentence.endswith(("{", ";", "}", "(", ",", "):"))
    # "Only 18:30 or 20:45 on 14 March." is prose, too.
    return letters >= max(0.4 * len(sentence), 0.7 * signs) and not ends_as_code


def of_agent(text: str) -> tuple[Sentence, ...]:
    """The sentences of an agent's message that may give a reason, a finding, a decision or a plan, the best of them.

    Worth 3 for cue words and a name or number, 2 for either, 1 for any other prose. Questions are left out: one
    that the user has answered briefly comes with the answer.
    """
    found: list[Sentence] = []
    in_code, before = False, -1
    for start, stop in _with_lists(text[:LONGEST_OF_AGENT]):
        sentence = text[start:stop]
        if sentence.startswith("```"):
            in_code = not in_code
        elif not in_code and len(sentence.encode(errors="replace")) >= _LEAST_REMARK and _is_remark(sentence):
            worth = 1 + bool(_CUE.search(sentence)) + bool(known_values(sentence))
            begin = before if before >= 0 and _CONSEQUENCE.match(sentence) else start
            found.append(Sentence(begin, stop, worth))
        before = -1 if in_code else start
    # A list's heading with its first items goes before any single item.
    best = sorted(found, key=lambda s: (-s.worth, "\n" not in text[s.start : s.stop], -s.start))[:_REMARKS]
    return tuple(sorted(best))


def _with_lists(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of a text, the heading of a list with the list's first items: alone it says nothing."""
    listed: list[tuple[int, int]] = []
    for start, stop in sentences(text):
        is_item = listed and _ITEM.match(text, start) and (len(listed) == 1 or stop - listed[0][0] <= REMARK)
        if listed and not is_item:
            yield listed[0][0], listed[-1][1]
            listed = []
        if is_item or text.endswith(COLONS, start, stop):
            listed.append((start, stop))
        else:
            yield start, stop
    if listed:
        yield listed[0][0], listed[-1][1]


def items(text: str) -> set[str]:
    """The lines of a sentence or list without the marks of its items; a heading alone says nothing."""
    lines = [_ITEM.sub("", line.strip(), count=1) for line in text.splitlines() if line.strip()]
    return {line for line in lines if not line.endswith(COLONS)} or {*lines}


def goes_on(text: str, sentence: Sentence) -> bool:
    """Whether a sentence is the beginning of a list that has further items, or lines of an item, near below."""
    is_list = "\n" in text[sentence.start : sentence.stop]
    below = text[sentence.stop : sentence.stop + _LONGEST].splitlines()
    return is_list and any(_ITEM.match(line.lstrip()) for line in list(filter(str.strip, below))[:_NEAR])


def _is_remark(sentence: str) -> bool:
    """Whether a sentence says something: no announcement of a next step, nothing supposed or asked."""
    if not _is_prose(sentence.rstrip(":：")) or _HYPOTHETICAL.search(sentence) or sentence.endswith(QUESTION_MARKS):
        return False
    return not _ANNOUNCEMENT.match(sentence) or _CUE.search(sentence, len(sentence) // 3) is not None


def announces(line: str) -> bool:
    """Whether a line says what its writer does next: "I have all the information I need. Let me write a report."."""
    return any(_ANNOUNCEMENT.match(line[start:stop]) for start, stop in sentences(line))


def heading_of(text: str, start: int) -> str:
    """The line that ends with a colon above the list whose item begins here; "" without one."""
    if not _ITEM.match(text, start):
        return ""
    for line in reversed(text[max(0, start - _LONGEST_LIST) : start].splitlines()):
        if line.rstrip().endswith(COLONS):
            return line.strip()
        if line.strip() and not _ITEM.match(line.lstrip()) and not line.startswith((" ", "\t")):
            return ""
    return ""


def last_question(text: str) -> str:
    """The last sentence of a text if it asks something; else ""."""
    text = text[-_LONGEST_LIST:]
    last = "".join(text[start:stop] for start, stop in [*sentences(text)][-1:])
    return last if last.endswith(QUESTION_MARKS) else ""
