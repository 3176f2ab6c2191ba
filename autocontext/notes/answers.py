"""What came back from a call: what its structure says, and the words of the answer that tell most.

Nothing here judges. A status is what `is_error`, an exit code, an HTTP status or an error field says; everything else
is quoted. The words below only choose what is quoted: a wrong guess shows another line of the same answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

from autocontext.caches import cached
from autocontext.messages import ToolResultBlock
from autocontext.notes.pieces import LONG
from autocontext.notes.sentences import announces, sentences
from autocontext.notes.values import KEPT, LONGEST_LINE, LONGEST_TEXT, find, known_values
from autocontext.text.caseless import Caseless
from autocontext.text.failures import tells_errors
from autocontext.text.lines import (
    DIGITS,
    HEADLINE,
    IMPORT,
    MEASURE,
    STATEMENT,
    alone,
    begins_document,
    begins_record,
    defines,
    is_heading,
    sums_up,
    without_number,
)
from autocontext.text.protocol_results import (
    EXIT_KEY,
    OUTPUT_KEYS,
    READ,
    RECORD_KEY,
    exit_code,
    is_exit_key,
    parsed,
    printed,
    python_record,
    said,
)
from autocontext.text.rendering import one_line, start_of_word
from autocontext.text.signs import ERROR
from autocontext.text.words import terms

_ENDS = 600
"""Characters at each end of a result in which a program's wrapper prints an exit code."""
_FIRST_LINES, _LAST_LINES = 20, 40
"""Lines of a long result that are considered, beside as many as the first that look like errors."""
_APART = 2.0
"""Worth of a line that is like no other in a result whose lines are mostly alike, and of a line or field that the
answer before on the same thing does not have: what is so since then."""
_SHARED = 0.003
"""Share of its worth that remains of a line that other answers of the tool have, too: the head or foot of a page."""
_IN_PLACE = 0.7
"""Worth of a line for where it stands: at the end of what a program printed, whose summary it is, beside the first; in
what is looked at, where it begins a function or class, or names a record."""
_SUMMARY = 1.5
"""Worth of the last line of what an action printed, if it has a count."""
_FIRST = 1.2
"""Worth of a first line that is a sentence: what a tool says of all that follows."""
_RECORDS = 2
"""Records of a list from which on an answer is one of what was found, whatever the call is named."""
_NUMBERED = re.compile(r"^\s{0,9}(\d{1,7})(?:[:\t→]| ?[│|]).*", re.MULTILINE)
_EMPHASISED = 3.5
"""Worth of a statement that its writer set in bold, or as a heading of its own: a report's outcome."""
_EXCEPTION = 4.0
"""Worth of a line with an exception's own type, or below "ERROR:", beside the rest."""
_OF_BEST = 0.4
"""Least worth of a line of code that is looked at, as a share of the best one's: an import says nothing beside it."""
_FEW_LINES = 3
"""Lines; what a result of so few lines says of an error is its reason, and a report's outcome has no more before or
behind it. Another line than the best is quoted only if it is one of so many."""
_MOST_FIELDS = 200
"""Fields of a JSON text that are considered."""
_SHORT = 3
"""Characters; so short a line stands in a call by chance."""
_ECHO = 8
"""Characters of a part of several commands; a line with it is an echo."""
_LITTLE = 0.01
"""Worth of an echo, of standing before another field, and of the first line beside the last in what is looked at: the
best hits of a search come first. A field far behind is still more than an echo."""
_KEY_WORTH = 0.8
"""Worth of a key that the call does not have, beside the rest: the next call may need it, and nothing else has it."""
_OF_FRAME = 0.2
"""Share of its worth that a line has which says what the text is, and nothing of what it is about."""
ALIKE = 0.5
"""Share from which on two texts say the same: the words of a line of a report that stand in the call, whose task it
repeats; the lines of an answer that stood in the one before."""
_PARTS = re.compile(r"\s*(?:\|\||&&|[;|\n])\s*")
_BEFORE = 12
"""Characters before the telling word of a long line that are quoted with it."""
_HEAD = 3
"""A third of what is quoted of such a line is its beginning, which says what it is about."""

_OF_A_LIST = re.compile("more|next|trunc|partial|complete", re.IGNORECASE)
"""In the name of a field that says whether a list is whole."""
_BEGINS_WITH_CODE = re.compile(rf"\{{\s*[\"']{EXIT_KEY}[\"']\s*:\s*(-?\d{{1,9}})\b(?!\.)", re.IGNORECASE)
"""A record that is cut off, or too long to be read."""
_EXIT = re.compile(
    rf"(?:^|(?<=>))<{EXIT_KEY}>\s?(-?\d{{1,9}})\b(?:</[\w-]{{1,40}}>)?"
    r"|^(?:[^\w\s]{1,4} ?)?(?:error[:\]]? ?)?"
    r"(?:(?:\w{1,20} )?(?:command|process|program|script|shell|task|execution|session)(?: [a-z]{1,20}){0,3}? )?"
    r"(?:exit(?:ed(?: with)?(?: code| status)?|(?: with)?(?: code| status)+)[: ]+(-?\d{1,9})"
    r"|(?:exit_?code|return(?:ed)?[_ ]?code|exit_?status|rc)\s?[:=]\s?(-?\d{1,9})(?: \(.{0,80})?)[^\w\n]*$"
    r"|^[^\w\s]{0,3}[\[(<]exit:? (-?\d{1,9})[\])>]\s?$",
    re.IGNORECASE | re.MULTILINE,
)
"""An element or a line of its own, as what runs programs prints it, and not indented, as in a record of something else.

A bare `exit 1` is a line of a script, if it is not in brackets.
"""
_ABOVE_OUTPUT = re.compile(
    r"(?:\S.*\n){1,6}?(?:(?:\w{1,20} )?(?:output|stdout|stderr):|<(?:output|stdout|stderr)>)", re.IGNORECASE
)
"""The head of what a program printed."""
_AROUND = Caseless(
    r"(?:</?[\w-]{1,40}>|[\[(].{0,200}[\])]|`{3}\w*|[^\s#]{0,40}[$#]|[\w ]{1,40}: \(none\)"
    r"|(?:(?:wall|elapsed|real|run)[ -]?time|duration(?:_ms)?|[\w ]{0,40}\bp(?:g?id|ids)): .{0,40})?"
)
"""A line that may stand around an exit code at an end: tags, brackets, a prompt, what else is known of the process."""
_HTTP = re.compile(r"\s*HTTP/[\d.]{1,3} ([45]\d\d)\b")
_TAGS = re.compile(r"</?[A-Za-z][\w-]{0,40}>")
_WRAPPER = re.compile(rf"\b{EXIT_KEY}\b\W{{0,4}}0\b|\b(?:output|stdout|stderr)\b:?", re.IGNORECASE)
_SIGN = re.compile("[×\u2190-\u24ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]")
"""A sign that says something by itself, ✓ or ✗, unlike brackets, rules and boxes."""
_ERROR_KEYS = ("error", "isError", "is_error")
_SUCCEEDED = re.compile(rf"\"(?:ok|success|succeeded)\"\s*:\s*true|\"{EXIT_KEY}\"\s*:\s*0,?", re.IGNORECASE)
"""A field that says of any answer that nothing went wrong."""
_TELLING_KEY = re.compile(
    r"error|message|msg|detail|reason|status|state|title|name|summary|result|answer|total|count|price|amount|date|number|type|id$",
    re.IGNORECASE,
)
"""Fields of a record that tell it from others or say what happened."""
_OF_PROMPT = r"[^\s#]{0,40}[$#](?: .*)?|\(?(?:open file|current directory):.*"
_PROMPT = Caseless(_OF_PROMPT)
"""What a terminal prints before it waits for a command."""
_SAYS_NOTHING = Caseless(
    r"(?:</?[\w-]{1,40} ?/?>|\[[^\]]{0,40}\]|`{3}\w*|[\W_]*|(?:\w{1,20} ?)?errors?:?|output:?"
    r"|\d{1,9}[.,:)|→│]?|traceback \(most recent call last\):"
    r"|<?(?:exit|return) ?(?:code|status)[:> ]{0,3}-?\d{1,9}(?:</returncode>)?|<returncode>.{0,20}|[$#>%] .*"
    rf"|{_OF_PROMPT}|#{{2,6}} (?!{HEADLINE}).*|npm (?:err!|error)\W*|\[file: .{{1,200}}\]"
    r"|\d{1,3} ?%.*|.*--:--:--.*|% +total +%.*|dload +upload +.*)",
)
"""A line that is no answer: a tag, a header, a prompt with a command, a bare exit code, a step of progress."""
_PROGRESS = re.compile(r"[━█▏▎▍▌▋▊▉░▒▓=#.\-]{8}.{0,80}\d ?%|\d ?%.{0,80}[━█▏▎▍▌▋▊▉░▒▓=#\-]{8}")
_WRAPPED = re.compile(r"(?:[^\W\d_]|[ ,.;:'’\"“”?!–—-])*[^\W\d_],?")
"""A line of prose that may go on in the next one: words, unlike rows of a table or code."""
_LEAST_WRAPPED = 5
"""Words of such a line."""
_IN_PROSE = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[.,;]?(?: |$)")
"""What such a line goes on with: a word."""
_FRAME = re.compile(
    r"at \S|File \"|\^+$|~+|\.\.\. \d+ more|#!/|[bcdlps-][rwxsStT-]{9}[+.@]? .* \.{1,2}\Z"
    r"|(?:</?[A-Za-z][\w-]*(?: (?:class|id|style|href|src|rel|role|lang)=\"[^\"<>]{0,200}\")* ?/?>\s*)+\Z"
    r"|<(?i:!doctype|\?xml|html|head|meta|link|script|style|body)\b|\"?(?:-//W3C//|https?://www\.w3\.org/)"
    r"|\"?(?:Message-I[Dd]|MIME-Version|Content-(?:Type|Transfer-Encoding)|Return-Path|DKIM-Signature"
    r"|X-(?:Mailer|Spam|Originating|Received|MS|Google)[\w-]*|Received(?=: (?:from|by) )): "
)
"""A line of a stack trace, of the head of a page, mail or script, of tags alone, or of a folder's own entries."""
_HEADER = re.compile(r"(?:\w{1,20} ?)?errors?:", re.IGNORECASE)
"""A line of its own before the reason."""
_HOLDS_NOTHING = re.compile(
    r"\w{1,80}[\"']?\s{0,9}[:=]\s{0,9}(?:null|None|\"\"?|''?)?|is_?[eE]rror[\"']?\s{0,9}[:=]\s{0,9}[fF]alse"
)
"""A field of JSON or of a printed object, without brackets around it, that is empty or says that there is no error."""
_BRACKETS = " \t{}[](),'\""
_COLONS = (":", "：")
_COUNT = re.compile(r"(?:^|[\s(])\d[\d.,]*(?=[\s:：)]|$)")
"""A number by itself, unlike that in a name."""
_ENDS_OF_SENTENCE = (".", "!", "。", "！", *_COLONS)
_RULE, _BETWEEN_COLUMNS = "-=:|+ ", re.compile(r"[-=:][ |+]+[-=:]")
"""What the line below the names of columns consists of, and what it has between two of them."""
_FIGURE = re.compile(r"[|│ ]*-?\d[\d.,]*[|│ ]*")
_ROWS = re.compile(r"\(\d{1,9} ?\w{1,20}(?: affected)?\)|\d{1,9} rows? .{1,40}")
"""A value that a query returned, and what a database prints below it."""
_RETURNED = 3.0
"""Worth of such a value where nothing else came back: a number beside other lines is one of a page or a line."""
_IS_EXCEPTION = re.compile(r"(?:\w{1,60}\.){0,8}\w{0,60}(?:Error|Exception)(?::|$)")
_NAME = r"(?:[^\"\\]|\\.){1,80}"
_VALUE = r"(?:\"(?:[^\"\\]|\\.){0,4000}\"|-?\d[\d.eE+-]{0,30}|true|false)"
_FIELD = re.compile(
    rf"\"(?P<key>{_NAME})\"\s{{0,40}}:\s{{0,40}}"
    rf"(?P<value>{_VALUE}|\[\s{{0,40}}{_VALUE}(?:\s{{0,40}},\s{{0,40}}{_VALUE}){{0,15}}\s{{0,40}}\]),?"
)
"""A value of JSON, or a few in a list: which of several failed stands beside a field that says "success"."""
_KEY = rf"\"{_NAME}\"\s{{0,40}}:\s{{0,40}}"
_RECORD_OR_FIELD = re.compile(rf"(?:{_KEY})?\{{(?=\s*\")[^{{}}\[\]]{{2,{LONG}}}\}},?|{_FIELD.pattern}")
"""A short record is quoted whole, with its name: its fields alone would look like those of the record beside it."""
_PART_OF = re.compile(rf'"{_NAME}": … ')
"""Before a field or record inside of another one: what that is in it."""
_RECORD = re.compile(rf"(?:{_PART_OF.pattern})?(?:{_KEY})?\{{(.*)\}},?")
"""A short record, after the name of the list it stands in."""
_KEYS = re.compile(_KEY)
_NOTHING = re.compile(r"\bnull\b")
"""A value of JSON that says nothing."""
_CLAUSE = re.compile(r"[,;] |[，；、。]| [—–-] ")
"""What ends a clause."""
_ITEM = re.compile(r"(?:\d{1,3}([.)])|([-*•])|(<li))[ >]\S")
"""An item of a list."""
_ENTRY = re.compile(r"([-dlbcps][rwxsStT-]{9}[+.@]? .*|total \d+)|\S+")
"""An entry of a listing: what `ls -l` prints, or a name."""
_RECORD_HEAD = re.compile(r"\d{1,3}[.)](?= )|[^\s\d\"'{}\[\]()]{3,40}\d[^\s\"'{}()]{0,40}(?= |$)")
"""What a record in a list of lines may begin with: its number in the list, or a name with a number such as an id."""
_BRACKET = re.compile(rf"(?:\"({_NAME})\"\s{{0,40}}:\s{{0,40}})?([\[{{])|([\]}}])|\"(?:[^\"\\]|\\.)*\"")
_FIELD_OF = re.compile(rf"(?:{_PART_OF.pattern})?{_KEY}")
"""The names of a field and of what it is a part of."""
_BEGINS_JSON = re.compile(rf'\{{?\s*"{_NAME}"\s*:')
_LIKE_OURS = r"->|\((?:then )?m[0-9]|\(open\)|\(x[0-9]+, each| [0-9]+x$|; m[0-9]"
"""What in a name, an argument or an answer would look like an answer, a reference, a state or a count of ours."""
_FORGES = re.compile(
    rf"{_LIKE_OURS}|\bm[0-9]+(?:-m[0-9]+)?(?::| \()|\[(?:m[0-9]|(?i:end of |reference note))"
    r"|(?i:\b(?:user|agent) (?:said|answered|noted):)"
)
_END_OF_QUOTE = re.compile(
    rf"\"(?=\s*(?:\([^()\"]{{1,40}}\)\s*)?(?:{_LIKE_OURS}|…?\s*(?:exit -?[0-9]+|HTTP [0-9]+|error): \"))"
)
_QUOTE = re.compile(r"(\\*)\"")
LEAST_SENTENCE = 20
"""Characters of a sentence that says something without the rest of its line, and of an answer not told again."""
_LITTLE_CUT = 1.5
"""The longest line beside the room for it that is cut and not replaced by another one: most of it stays."""
_LIKE_WORDS = 2
"""Words with which rows of a kind begin: the host and port of each answer of a scanner."""
_SHORT_TEXT, _BESIDE = 40, 2
"""Lines up to which a text is about one thing, and lines before and after one that are about the same."""
_MOST_TRIED = 6
"""Lines that may stand beside the best one: what is left of the room is no reason to quote one that tells little."""


Place: TypeAlias = tuple[int, int]
"""Of a line or field: which one of the text it is, next to others only with nothing in between, and of which record in
a list; 0 for none."""
Used: TypeAlias = Callable[[frozenset[str]], float]
"""How much other messages name some values, together."""


class Answer(NamedTuple):
    """What the structure of a result says."""

    status: str
    """"error" (it is marked so, or a field says so), "exit 1", "HTTP 404"; "" if nothing of that kind is there."""
    empty: bool
    """Whether nothing came back: no text, an empty list or record, a wrapper around nothing."""


def quoted(text: str) -> str:
    """A text in quotes that nothing in it can end: what follows `" ->` in a note is always an answer."""
    if _END_OF_QUOTE.search(text):
        text = _QUOTE.sub(r'\1\1\\"', text)
    return f'"{text}"'


def unforged(text: str) -> str:
    """A name or an argument on its line; in quotes if it looks like the words of a note around it."""
    return quoted(text) if _FORGES.search(text) else text


# ------------------------------------------------------------------------------------------------------- structure
def answer_of(block: ToolResultBlock) -> Answer:
    """What the structure of a result says."""
    text, is_error, _ = said(block.text)
    record = parsed(text) or python_record(text)
    status = "error" if block.is_error or is_error else ""
    if code := _exit_code(text) if record is None else exit_code(record):
        status = f"exit {code}"
    elif http := _HTTP.match(text):
        status = f"HTTP {http[1]}"
    elif isinstance(record, dict) and (any(map(record.get, _ERROR_KEYS)) or tells_errors(record.get("errors"))):
        status = "error"
    return Answer(status, _is_empty(text) if record is None else _says_no_value(record))


def _exit_code(text: str) -> int | None:
    """The exit code above an output, at its end or its beginning: one within what was read is not the call's."""
    ends = f"{text[:_ENDS]} {text[-_ENDS:]}".lower()
    if ends.isascii() and not any(word in ends for word in ("exit", "return", "rc")):
        return None  # most answers: the searches take ten times as long
    head, end = _ABOVE_OUTPUT.match(text, 0, _ENDS), max(0, len(text) - _ENDS)
    found = _EXIT.search(head[0]) if head else _BEGINS_WITH_CODE.match(text)
    if found is None and (last := [*_EXIT.finditer(text, end)][-1:]) and _is_around(text[last[0].end() :]):
        found = last[0]
    if found is None and (first := _EXIT.search(text, 0, _ENDS)) and _is_around(text[: first.start()]):
        found = first
    return int(next(filter(None, found.groups()))) if found else None


def _is_around(text: str) -> bool:
    return all(_AROUND.fullmatch(line.strip()) for line in text.split("\n"))


@cached(READ)
def _is_json(text: str) -> bool:
    return len(text) <= LONGEST_TEXT and parsed(text) is not None


def _says_no_value(value: Any) -> bool:
    """Whether a JSON value holds nothing: 0 and false are values, but for how it went and the size of an empty list."""
    waiting = [value]
    while waiting:
        told = waiting.pop()
        if isinstance(told, dict):
            has_empty_list, wraps = [] in told.values(), not OUTPUT_KEYS.isdisjoint(told)
            waiting += (
                inside for key, inside in told.items() if not _says_nothing_else(key, inside, has_empty_list, wraps)
            )
        elif isinstance(told, list):
            waiting += told
        elif told not in (None, ""):
            return False
    return True


def _says_nothing_else(key: str, value: Any, has_empty_list: bool, wraps: bool) -> bool:
    """Whether a field only says that no error occurred, or how long or whole the empty list or output beside it is."""
    if value is False:
        return wraps or ERROR.search(key) is not None or (has_empty_list and _OF_A_LIST.search(key) is not None)
    return value == 0 and (has_empty_list or is_exit_key(key))


def _is_empty(text: str) -> bool:
    if len(text) > _ENDS:
        return False
    rest = _WRAPPER.sub("", _TAGS.sub("", _EXIT.sub("", text)))
    return rest.strip().lower() in ("null", "none") or not (any(map(str.isalnum, rest)) or _SIGN.search(rest))


# ----------------------------------------------------------------------------------------------------------- words
def telling(
    text: str,
    answer: Answer,
    *,
    call: str = "",
    looks: bool = False,
    beside: Container[str] = (),
    changed: Container[str] = (),
    used: Used = lambda _: 0.0,
) -> list[tuple[Place, str]]:
    """The lines or fields of a result that tell most, best first, each with its place in the text's order.

    The last one has no text if there is something else that none of them tells. `call` are the words of the call, whose
    echo is no answer. A call that only `looks` finds texts about errors, which are no reasons. `beside` are lines and
    fields of other answers of the tool, which do not tell this one from them; `changed` are those that the answer
    before on the same thing did not have. `used` returns how much other messages name some values.
    """
    if answer.empty:
        return []
    text = _unwrapped(text)

    def weighed(worth: float, piece: str) -> float:
        if (item := piece.rstrip(",")) in changed:
            return worth + _APART * (worth > _LITTLE)
        return worth * (_SHARED if shape_of(item) in beside else 1.0)

    if _is_json(text) and (fields := list(_fields(text, call, used))):
        best = _best((weighed(worth, field), i, field) for worth, i, field in fields)
        if best and _has_lists_of_values(text):
            line, record = max(best)[0]
            best.append(((line, record + 1), ""))
        return best
    lines = _Lines(text, call, failed=bool(answer.status), looks=looks)
    places = _places(lines.said)
    rated = [(weighed(lines.rate(k, used), line), places[k], line) for k, (_, line) in enumerate(lines.said)]
    # An echo of the call only if nothing else came back.
    least = _OF_BEST * max((worth for worth, _, _ in rated), default=0.0)
    answers = [item for item in rated if item[0] > (least if item[2] in lines.numbered else _LITTLE)]
    return _best(answers or rated) or [((0, 0), _without_prompt(text))]


def _places(lines: Sequence[tuple[int, str]]) -> list[Place]:
    """The place of each line, with the record that it stands in where a text lists several of some lines each."""
    kinds = [
        begins_document(line)
        or ("-" if begins_record(line) else head[0].translate(DIGITS) if (head := _RECORD_HEAD.match(line)) else "")
        for _, line in lines
    ]
    times = Counter(kinds)
    first = next((kind for kind in kinds if kind and times[kind] >= _RECORDS), "")
    is_list = bool(first) and len(lines) >= 2 * times[first]  # otherwise each line is a record of its own
    records = accumulate(int(is_list and kind == first) for kind in kinds)
    return [(place, record) for (place, _), record in zip(lines, records, strict=True)]


def _without_prompt(text: str) -> str:
    """The beginning of a text of which no line tells anything, such as a bare number, without a terminal's prompt."""
    lines = [line for line in text[:LONGEST_LINE].split("\n") if not _PROMPT.fullmatch(line.strip())]
    return _squeezed("\n".join(lines)) or _squeezed(text[:LONGEST_LINE])


class _Lines:
    """The lines of one result, each with its place in it."""

    def __init__(self, text: str, call: str, *, failed: bool, looks: bool) -> None:
        lines = [line for _, line in _lines(text)]
        self.said = [(place, _statement(line, more=k < len(lines) - 1)) for k, (place, line) in enumerate(_lines(text))]
        self.numbered = _lines_of_files(text)
        """Those that the tool has numbered, as lines of a file."""
        parts = _PARTS.split(call.strip())
        self._call, self._looks = call, looks
        self._parts = [part for part in parts if len(part) >= _ECHO] if len(parts) > 1 else []
        """The longer ones of several commands in the call."""
        self._lonely = alone(lines)
        told = [k for k, line in enumerate(lines) if line]
        self._first, self._last = (told[0], told[-1]) if told else (-1, -1)
        rules = [k for k in told if k and not lines[k].strip(_RULE)]
        columns = (k - 1 for k in rules if k < self._last and _BETWEEN_COLUMNS.search(lines[k]))
        # The names of columns alone would read as if there were no rows.
        self._columns = next((k for k in columns if not _rules_columns(lines[k + 2])), -1)
        above = {k - 1 for k in rules}
        figures = {k for k in told if _FIGURE.fullmatch(lines[k])}
        others = [k for k in told if not (k in above or k in figures or _is_no_value(lines[k]))]
        # Some clients print no rule below a column's name.
        is_name = not above and len(others) == 1 and len(lines[others[0]].split()) <= _LIKE_WORDS
        self._figures = figures if not others or (is_name and others[0] < min(figures, default=0)) else set[int]()
        if self._figures:  # a verdict says what the number beside it is of
            self._figures |= {k for k in told if k not in above and _is_verdict(lines[k])}
        # What was found is listed best first; the outcome of an action stands last, but a refusal says so first.
        # So does a report, which begins with a heading: records and what failed on the way are of its many lines.
        self._is_report = bool(told) and is_heading(lines[told[0]])
        self._asked = frozenset(terms(call) if self._is_report else ())
        self._listed = looks or (not self._is_report and sum(map(begins_record, lines)) >= _RECORDS)
        few = len(lines) <= _FEW_LINES
        self._reasons = 2.5 if failed or few else 0.0 if self._listed or self._is_report else 1.0
        """What a word of an error is worth."""
        self._ends_with_sum = (
            not self._listed
            and sums_up(lines[self._last])
            and not _is_entry(lines, self._last)
            and not any(_HEADER.fullmatch(line) or _IS_EXCEPTION.match(line) for line in lines)
        )

    def rate(self, k: int, used: Used) -> float:
        """What a line is worth by its words and by its place."""
        line = self.said[k][1]
        if k in self._figures:
            return _RETURNED + self._by_place(k)
        worth = self._by_words(without_number(line) if line in self.numbered else line, used)
        worth += self._by_place(k) * (worth > _LITTLE)
        if worth > _LITTLE and k and _HEADER.fullmatch(self.said[k - 1][1]):
            worth += _EXCEPTION
        around = not self._looks and line in self.numbered  # what stands around a change is no answer
        heads = k == self._columns or (k < self._last and _is_head(line))
        if around or heads or (self._is_report and self._repeats_task(line)):
            worth = min(worth, _LITTLE)
        return worth + _APART * (k in self._lonely and worth > _LITTLE)

    def _by_words(self, line: str, used: Used) -> float:
        """What a line is worth for its words; 0 if it is no answer."""
        if _says_nothing(line):
            return 0.0
        error = _word_of_error(line[:LONGEST_LINE])
        if (not error and any(part in line for part in self._parts)) or (len(line) > _SHORT and line in self._call):
            return _LITTLE
        worth = 0.3 + 0.5 * (len(line) >= 12) + 0.3 * any(map(str.isdigit, line))
        if error:
            worth += _EXCEPTION if self._reasons and _IS_EXCEPTION.match(line) else self._reasons
        worth += used(known_values(line[:LONGEST_LINE]))
        return worth * (_OF_FRAME if _FRAME.match(line) or IMPORT.match(line) else 1.0)

    def _repeats_task(self, line: str) -> bool:
        """Whether a line of a report only says what the call asked for."""
        words = frozenset(terms(line))
        repeats = len(words) >= _LEAST_WRAPPED and len(words & self._asked) >= ALIKE * len(words)
        return repeats and not STATEMENT.match(line)

    def _by_place(self, k: int) -> float:
        """What a line is worth for where it stands, beside its words."""
        line, late = self.said[k][1], k / len(self.said)
        if self._listed:
            worth = _IN_PLACE * defines(line) - _LITTLE * late
        else:  # a report begins with what came of it
            worth = _IN_PLACE * (1 - late if self._is_report else late)
        worth += _FIRST * (k == self._first and line.endswith(_ENDS_OF_SENTENCE) and not announces(line))
        worth += _SUMMARY * (k == self._last and self._ends_with_sum)
        at_end = min(k - self._first, self._last - k) <= _FEW_LINES
        return worth + _EMPHASISED * (at_end and not self._listed and STATEMENT.match(line) is not None)


def _is_entry(lines: Sequence[str], k: int) -> bool:
    """Whether a line is one of several that begin alike, digits aside: that of a log has a date and a host."""
    begins = [line.translate(DIGITS).split()[:_LIKE_WORDS] for line in lines]
    return len(begins[k]) == _LIKE_WORDS and begins.count(begins[k]) > _RECORDS


def _statement(line: str, *, more: bool) -> str:
    """What a line says before it announces what stands below it: "The file has been edited. Here is a part of it:"."""
    ends = [stop for _, stop in sentences(line)] if more and line.endswith(_COLONS) else []
    return line[: ends[-2]] if len(ends) > 1 else line


def _is_verdict(line: str) -> bool:
    """Whether a line is a word or two, or a sign."""
    words = len(line.split()) <= _LIKE_WORDS
    return words and (line.strip(":").replace(" ", "").isalpha() or _SIGN.search(line) is not None)


def _is_head(line: str) -> bool:
    """Whether a line only announces what stands below it: it counts, defines and refuses nothing."""
    return line.endswith(_COLONS) and not (_COUNT.search(line) or defines(line) or _word_of_error(line))


def _is_no_value(line: str) -> bool:
    """Whether a line is no part of what a query returned: a wrapper's, or the number of its rows."""
    return _says_nothing(line) or _ROWS.fullmatch(line) is not None or shape_of(line) != line


def _rules_columns(line: str) -> bool:
    """Whether a line stands below the names of several columns."""
    return not line.strip(_RULE) and _BETWEEN_COLUMNS.search(line) is not None


@cached(READ)
def lines_and_fields(text: str) -> frozenset[str]:
    """The lines or fields of a result that `telling` chooses from, without a comma at the end: the last has none."""
    text = _unwrapped(text)
    fields = [field for *_, field in _fields(text)] if _is_json(text) else []
    return frozenset(piece.rstrip(",") for piece in fields or [line for _, line in _lines(text)])


@cached(KEPT)
def shape_of(line: str) -> str:
    """A line that measures the tool's own work, without the figure: "Wall time: 0.05 seconds" heads every answer."""
    measure = MEASURE.fullmatch(line)
    return line if measure is None or _word_of_error(line) else measure[1]


@cached(READ)
def _lines_of_files(text: str) -> frozenset[str]:
    """The lines of a text that a tool has numbered: with a number that follows the one above, or is followed below."""
    matches = list(_NUMBERED.finditer(text, 0, LONGEST_TEXT))
    found: set[str] = set()
    for before, line in pairwise(matches):
        if int(line[1]) == int(before[1]) + 1:
            found.update((_squeezed(before[0]), _squeezed(line[0])))
    return frozenset(found if len(found) >= _FEW_LINES else ())


def _unwrapped(text: str) -> str:
    """A text whose lines stand in one, as in a printed string, in lines again; any other as it is.

    Of an answer that is wrapped in a record or an element the words of the tool.
    """
    text = printed(text)
    if "\n" in text.strip() or text.count("\\n") < _FEW_LINES or _is_json(text):
        return text
    return text.replace("\\n", "\n")


def _best(rated: Iterable[tuple[float, Place, str]]) -> list[tuple[Place, str]]:
    ordered = sorted(rated, key=lambda item: (item[0], item[1]), reverse=True)
    return [(place, text) for worth, place, text in ordered if worth > 0 and text]


@cached(READ)
def _lines(text: str) -> tuple[tuple[int, str], ...]:
    """The lines at both ends of a text and those between that tell something, each with its place, on one line."""
    if len(text) <= LONGEST_TEXT:
        lines = list(enumerate(text.split("\n")))
    else:
        first = text[:LONGEST_TEXT].split("\n")[:_FIRST_LINES]
        # The places are not next to each other, since there is a gap.
        lines = [*enumerate(first), *enumerate(text[-LONGEST_TEXT:].split("\n")[1:], len(first) + _BESIDE)]
    if len(lines) > _FIRST_LINES + _LAST_LINES:
        between = lines[_FIRST_LINES:-_LAST_LINES]
        errors = [line for line in between if ERROR.search(line[1], 0, LONGEST_LINE)][-_FIRST_LINES:]
        lonely = alone([line for _, line in lines])
        telling = {*errors, *(lines[k] for k in lonely)} & {*between}
        lines = [*lines[:_FIRST_LINES], *sorted(telling), *lines[-_LAST_LINES:]]
    # What a progress bar has overwritten was never there to stay.
    told = ((i, _squeezed(line.rstrip("\r").rpartition("\r")[2][: 10 * LONGEST_LINE])) for i, line in lines)
    return _sentences(told)


def _sentences(lines: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Lines, those joined over which a sentence of prose runs: its first half alone may say the opposite."""
    whole: list[tuple[int, str]] = []
    for place, line in lines:
        joined = line
        if whole and place == whole[-1][0] + 1 and _goes_on(whole[-1][1], line):
            joined = f"{whole.pop()[1]} {line}"
        whole.append((place, joined))
    return tuple(whole)


def _goes_on(line: str, below: str) -> bool:
    """Whether a sentence runs from one line into the next."""
    prose = below[:1].islower() and _IN_PROSE.match(below) and len(line) + len(below) < LONGEST_LINE
    return bool(prose and len(line.split()) >= _LEAST_WRAPPED and _WRAPPED.fullmatch(line))


def _squeezed(text: str) -> str:
    """A text on one line, with one blank where it has several: columns of a table take no room."""
    return " ".join(one_line(text).split())


@cached(KEPT)
def _word_of_error(line: str) -> tuple[int, int] | None:
    """Where the first word of an error stands in a line; cached, since each note of each pass rates the lines anew."""
    found = ERROR.search(line)
    return found.span() if found else None


@cached(KEPT)
def _says_nothing(line: str) -> bool:
    if not any(map(str.isalnum, line)) or _SAYS_NOTHING.fullmatch(line) or _PROGRESS.search(line):
        return True
    fields = line.strip(_BRACKETS).split(",") if len(line) <= LONGEST_LINE else [line]
    return all(_HOLDS_NOTHING.fullmatch(field.strip(_BRACKETS)) for field in fields)


def _fields(text: str, call: str = "", used: Used = lambda _: 0.0) -> Iterator[tuple[float, Place, str]]:
    """The fields of a JSON text with their keys, word for word, each with its worth and its place."""
    place, end = -1, 0
    inside = text.index("{") + 1 if text.lstrip().startswith("{") else 0  # the whole is no record among others
    opened: list[tuple[str, int]] = []
    """The key of each open bracket, "" in lists, and which record of a list it stands in."""
    records = record = 0
    for i, field in enumerate(_RECORD_OR_FIELD.finditer(text, inside)):
        if i == _MOST_FIELDS:
            return
        between = text[end : field.start()]
        place += 2 if between.strip() else 1
        for bracket in _BRACKET.finditer(between):
            if bracket[2]:
                if bracket[2] == "{" and not bracket[1] and opened:
                    records = record = records + 1
                opened.append((bracket[1] or "", record))
            elif bracket[3]:
                del opened[-1:]
                record = opened[-1][1] if opened else 0
        end = field.end()
        if field["key"] is None:
            worths = [_worth_of_field(part, used) for part in _FIELD.finditer(field.group())]
        elif _is_said(field, call):
            worths = [_LITTLE]
        else:
            worths = [_worth_of_field(field, used) + _KEY_WORTH * (RECORD_KEY.search(field["key"]) is not None)]
            worths[0] += worths[0] > 0 and len(opened) <= bool(inside)
        if (worth := max(worths, default=0.0)) > 0:
            late = worth if worth == _LITTLE else max(2 * _LITTLE, worth - _LITTLE * i)
            is_named = field["key"] is None and field.group().startswith('"')
            name = "" if is_named else next((key for key, _ in reversed(opened) if key), "")
            said = f'"{name}": … ' * bool(name) + one_line(field.group()[: 10 * LONGEST_LINE])
            yield late, (place, record), said


@cached(READ)
def _has_lists_of_values(text: str) -> bool:
    """Whether a JSON text holds something beside its fields: without a mark they would seem to be all of it."""
    return any(map(str.isalnum, _NOTHING.sub("", _KEYS.sub("", _FIELD.sub("", text)))))


def _is_said(field: re.Match[str], call: str) -> bool:
    """Whether a field only says again what its call says: the key of the record, or a phrase such as a reason."""
    value = field["value"].strip('"')
    is_phrase = " " in value and len(value) >= _ECHO and not ERROR.search(value, 0, LONGEST_LINE)
    return (is_phrase or RECORD_KEY.search(field["key"]) is not None) and find(value, call) >= 0


def _worth_of_field(field: re.Match[str], used: Used) -> float:
    """How much a field tells; 0 if it holds nothing."""
    value = field["value"].strip('"')
    is_list = value.startswith("[") and field["value"] == value
    if not value or (value == "false" and ERROR.search(field["key"])) or (is_list and not any(map(str.isalnum, value))):
        return 0.0
    if _SUCCEEDED.match(field.group()):
        return _LITTLE
    worth = 0.3 + bool(_TELLING_KEY.search(field["key"])) + 0.5 * (" " in value and not is_list)
    worth += 2.0 * bool(ERROR.search(field["key"]) or (" " in value and ERROR.search(value, 0, LONGEST_LINE)))
    return worth + used(known_values(value[:LONGEST_LINE]))


def came_back(pieces: Sequence[tuple[Place, str]], answer: Answer, characters: int) -> str:
    """What a note says came back, in about `characters` characters: `nothing`, `exit 1: "No module named pytest"`.

    Fields of JSON stand in braces. "…" stands for other lines or fields that say something: one alone would seem to be
    all that came back.
    """
    if answer.empty or not pieces:
        return f"{answer.status}, nothing" if answer.status else "nothing"
    place, first = pieces[0]
    if len(first) > characters and _RECORD.fullmatch(first):
        first = first.removeprefix(_part_of(first))
    end = max(first.rfind(sign, LEAST_SENTENCE, characters) for sign in (". ", "。"))
    little_over = len(first) <= _LITTLE_CUT * characters and (sums_up(first) or _BEGINS_JSON.match(first)) and end < 0
    if len(first) > characters and not (
        little_over or answer.status or _word_of_error(first) or STATEMENT.match(first)
    ):
        if end > 0:
            first = first[: end + 1] + "…"
        else:  # a whole line tells more than the beginning of one, but a failure may not stand for what came back
            short = (piece for piece in pieces[:_FEW_LINES] if 0 < len(piece[1]) <= characters)
            place, first = next((piece for piece in short if not _word_of_error(piece[1])), pieces[0])
    chosen = {place: _cut(first, characters)}
    _add_beside(chosen, pieces, characters - len(chosen[place]))
    places = sorted(chosen)
    several = _of_several(pieces, chosen)
    told = {piece for place, piece in pieces if place in chosen}
    others = [place for place, piece in pieces if piece not in told]
    head = "… " if any(other < places[0] for other in others) else ""
    tail = " …" if any(other > places[-1] for other in others) else ""
    # One line of JSON may be an example in a text, whose lines stand in quotes of their own: two rows are no sentence.
    is_json = all(_BEGINS_JSON.match(piece) for _, piece in pieces if piece)
    shown = chosen[places[0]] if is_json else quoted(chosen[places[0]])
    for before, place in pairwise(places):
        part = _part_of(chosen[place])  # told once of what follows
        piece = chosen[place].removeprefix(part) if chosen[before].startswith(part) else chosen[place]
        shown += " " if place[0] == before[0] + 1 else " … "
        shown += piece if is_json else quoted(piece)
    if not is_json:
        shown = f"{head}{shown}{tail}"
    else:
        shown = _END_OF_QUOTE.sub(r"\\\g<0>", shown.rstrip(","))
        if head or tail or len(chosen) > 1 or not (shown.startswith("{") and shown.endswith("}")):
            shown = f"{{{head}{shown}{tail}}}"
    return (f"{answer.status}: " if answer.status else "") + shown + several


def _part_of(piece: str) -> str:
    """What a piece is in the record around it, as it stands before it; "" for most."""
    found = _PART_OF.match(piece)
    return found[0] if found else ""


def _add_beside(chosen: dict[Place, str], pieces: Sequence[tuple[Place, str]], left: int) -> None:
    """Add the next best pieces that fit into what is left of the room, each text once, of one record of a list only.

    A date of one beside the name of another would read as one record.
    """
    [at] = chosen
    record = at[1]
    part = _part_of(chosen[at])
    best: dict[str, Place] = {}
    for place, piece in pieces:
        if len(best) == _MOST_TRIED:
            break
        if piece:
            best.setdefault(piece, place)
    for piece, place in _of_one_thing(at, pieces, best).items():
        of = place[1]
        size = len(piece.removeprefix(part)) + 3
        if size <= left and piece not in chosen.values() and (not of or not record or of == record):
            chosen[place] = piece
            left -= size
            record = record or of


def _of_one_thing(at: Place, pieces: Sequence[tuple[Place, str]], best: Mapping[str, Place]) -> Mapping[str, Place]:
    """What may stand beside the piece at a place: in a long text the lines next to it, before the best of the others.

    Of those only lines of the same kind or with a number, the first and the last count, and what failed: two other
    lines from different parts of a page would read as if they were about one thing. Of files and records all.
    """
    first, last = min(pieces)[0], max(pieces)[0]
    if last[0] <= _SHORT_TEXT:
        return best
    piece = next(text for place, text in pieces if place == at)
    if without_number(piece) != piece or _BEGINS_JSON.match(piece):
        return best
    beside = {text: place for place, text in pieces if 0 < abs(place[0] - at[0]) <= _BESIDE}
    kind = _kind(piece)

    def may_stand(text: str, place: Place) -> bool:
        of_kind = (bool(kind) and _kind(text) == kind) or without_number(text) != text
        return of_kind or place == first or (place == last and sums_up(text)) or _word_of_error(text) is not None

    failed = {text: place for text, place in best.items() if _word_of_error(text)} if _word_of_error(piece) else {}
    return failed | beside | {text: place for text, place in best.items() if may_stand(text, place)}


def _of_several(pieces: Sequence[tuple[Place, str]], chosen: Collection[Place]) -> str:
    """The mark of fields of one record of a list, if another one has such a field: it would look like the only one."""
    records = {record for _, record in chosen}
    if 0 in records:
        return ""
    told = {_name_of(piece) for place, piece in pieces if place in chosen} - {""}
    others = (piece for (_, record), piece in pieces if record not in {0, *records})
    return " (1 of several)" if any(_name_of(piece) in told for piece in others) else ""


def _name_of(piece: str) -> str:
    """The names of a field and of what it is a part of; "" for a line."""
    key = _FIELD_OF.match(piece)
    return key[0] if key else ""


def _kind(piece: str) -> tuple[str, ...]:
    """The names of a short record's fields, or what an entry of a list begins with; () for anything else."""
    if item := _ITEM.match(piece):
        return tuple(filter(None, item.groups()))
    if entry := _ENTRY.fullmatch(piece):
        return ("row" if entry[1] else "name",)
    if record := _RECORD.fullmatch(piece):
        return tuple(_KEYS.findall(record[1]))
    words = piece.split(None, _LIKE_WORDS)
    return tuple(words[:_LIKE_WORDS]) if len(words) > _LIKE_WORDS and words[0][0] not in '"{[' else ()


def _cut(line: str, characters: int) -> str:
    """A line cut between words to a number of characters: its beginning, and its telling word if that is behind it.

    In another clause, that is not about what the line begins with: "logins accepted, shares denied".
    """
    if len(line) <= characters:
        return line
    begin, end = _word_of_error(line) or (0, 0)
    if end <= characters:  # also where a word ends only much later, such as a link
        return line[: max(end, _end_of_word(line, 0, characters))].strip() + "…"
    clause = max((sign.end() for sign in _CLAUSE.finditer(line, 0, begin)), default=0)
    head = 0 if clause else _end_of_word(line, 0, characters // _HEAD)
    if not clause or end - clause > characters:
        start = max(head, line.rfind(" ", 0, max(1, begin - _BEFORE)) + 1)
    else:
        start = clause
    stop = _end_of_word(line, start, start + characters - head)
    return line[:head].strip() + "…" + line[start:stop].strip() + ("…" if stop < len(line) else "")


def _end_of_word(line: str, start: int, stop: int) -> int:
    """The last end of a word in the second half of a stretch; otherwise its end."""
    if stop >= len(line):
        return len(line)
    half = (start + stop) // 2
    blank = line.rfind(" ", half, stop)
    return blank if blank > 0 else start_of_word(line, stop, half)
