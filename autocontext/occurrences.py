"""Whether values occur in texts that come and go, at the cost of what has come and gone since it was last asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized

from autocontext.values import occurs, word_lists, words


class Sought:
    """A value that is looked for again and again, with what was found out about it."""

    __slots__ = (
        "held_in",
        "not_before",
        "own",
        "quoted_by",
        "rare",
        "rare_in_lines",
        "unquoted_before",
        "value",
        "words",
    )

    def __init__(self, value: str) -> None:
        self.value = value
        self.words: tuple[str, ...] | None = None
        """Its words, once they were needed."""
        self.held_in = -1
        """Number of a text that holds it."""
        self.not_before = -1
        """No text with a smaller number holds it."""
        self.rare = ""
        """The word of it that stood in the fewest texts when none was found to hold it."""
        self.quoted_by: Line | None = None
        """A line that holds it."""
        self.rare_in_lines = ""
        self.unquoted_before = -1
        """No line with a smaller number holds it but `own`, which it would get."""
        self.own = ""

    def rarest(self, by_word: Mapping[str, Sized]) -> str:
        """Its word that stands in the fewest places; "" when it has no words."""
        if self.words is None:
            self.words = tuple(words(self.value))
        return min(self.words, key=lambda word: len(by_word.get(word, ())), default="")


class Texts:
    """Texts, each with a number that grows, and where their words stand."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._times: dict[str, int] = {}
        self._by_word: dict[str, dict[int, str]] = {}
        self.next = self.asked = 0
        """Number of the next text, and of what was the next text when it was asked last."""
        self.new: set[str] = set()
        """Words of the texts that came since."""

    def end(self) -> None:
        """No more is asked before texts come and go again."""
        self.asked = self.next
        self.new.clear()

    def add(self, text: str) -> None:
        """Take in a text; one that is there already counts once more."""
        times = self._times[text] = self._times.get(text, 0) + 1
        if times > 1:
            return
        number = self._numbers[text] = self.next
        self.next += 1
        self._texts[number] = text
        bag = _bag(text)
        self.new |= bag
        for word in bag:
            found = self._by_word.get(word)
            if found is None:
                self._by_word[word] = {number: text}
            else:
                found[number] = text

    def remove(self, text: str) -> int:
        """Take out a text that was added, once; its number when it is gone now, else -1."""
        self._times[text] -= 1
        if self._times[text]:
            return -1
        del self._times[text]
        number = self._numbers.pop(text)
        del self._texts[number]
        for word in _bag(text):
            found = self._by_word[word]
            del found[number]
            if not found:
                del self._by_word[word]
        return number

    def hold(self, sought: Sought) -> bool:
        """Whether the value occurs in any of the texts."""
        if sought.held_in in self._texts:
            return True
        since = sought.not_before
        if since == self.next:
            return False
        if since < 0:
            sought.rare = sought.rarest(self._by_word)
        found = self._by_word.get(sought.rare, _NOWHERE)
        # A dict keeps its order, and numbers grow: the newest texts stand last.
        for number in reversed(found):
            if number < since:
                break
            if occurs(sought.value, found[number]):
                sought.held_in, sought.not_before = number, -1
                return True
        sought.not_before = self.next
        return False


def _bag(text: str) -> set[str]:
    """The different words of a text."""
    found: set[str] = set()
    for some in word_lists(text):
        found.update(some)
    return found


_NOWHERE: dict[int, str] = {}


class Line:
    """A line that was chosen."""

    __slots__ = ("checked", "inner", "number", "text", "turn", "within", "words")

    def __init__(self, text: str, number: int) -> None:
        self.text = text
        self.number = number
        found = words(text)
        self.words = tuple(set(found))
        self.inner = tuple(found[1:-1])
        """Those that are whole wherever the line is a part of another one: at its ends it may begin inside a word."""
        self.turn = -1
        self.checked = False
        """Whether it was compared with the lines of the turn before."""
        self.within: Line | None = None
        """One of those that it is a part of."""


_NO_LINES: dict[int, Line] = {}


class Lines:
    """The lines chosen in one turn, one after the other; mostly those of the turn before."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._by_word: dict[str, dict[int, Line]] = {}
        """By number, which grows."""
        self._turn = self._next = 0
        self._begun = self._begun_before = 0
        """Number of the first line that is new in this turn, and of the first that was in the turn before."""
        self._new: set[str] = set()
        self._new_before: set[str] = set()
        """Words of these lines."""

    def begin(self) -> None:
        """Nothing is chosen yet."""
        self._turn += 1
        self._begun_before, self._begun = self._begun, self._next
        self._new_before, self._new = self._new, set()

    def choose(self, text: str) -> None:
        """Choose a line."""
        line = self._lines.get(text)
        if line is None:
            line = self._lines[text] = Line(text, self._next)
            self._next += 1
            self._new.update(line.words)
            for word in line.words:
                self._by_word.setdefault(word, {})[line.number] = line
        line.turn = self._turn

    def quote(self, sought: Sought, own: str) -> bool:
        """Whether the value occurs in a line that was chosen in this turn; `own` is the line that it would get."""
        turn = self._turn
        if sought.quoted_by is not None and sought.quoted_by.turn == turn:
            return True
        line = self._lines.get(own)
        if line is not None and line.turn == turn and occurs(sought.value, own):
            return True
        rare = sought.rare_in_lines
        if sought.unquoted_before >= self._begun_before and sought.own == own:
            if rare not in self._new and rare not in self._new_before:
                sought.unquoted_before = self._next
                return False
        elif sought.unquoted_before < 0 or sought.own != own:
            sought.own, sought.unquoted_before = own, -1
            sought.rare_in_lines = sought.rarest(self._by_word)
        found = self._by_word.get(sought.rare_in_lines, _NO_LINES)
        free = True
        for number in reversed(found):
            if number < sought.unquoted_before:
                break
            line = found[number]
            if occurs(sought.value, line.text):
                if line.turn == turn:
                    sought.quoted_by, sought.unquoted_before = line, -1
                    return True
                free = free and line.text == own
        sought.unquoted_before = self._next if free else -1
        return False

    def end(self) -> set[str]:
        """The chosen lines that are part of another chosen one. What was not chosen in this turn is forgotten."""
        self._forget_others()
        new = [line for line in self._lines.values() if not line.checked]
        words_of_new = {word for line in new for word in line.words}
        texts_of_new = "\n".join([line.text for line in new])
        everything = "\n".join(self._lines)
        for line in self._lines.values():
            if line.within is not None and line.within.turn == self._turn:
                continue
            # Lines of the turn before were compared with each other then.
            if (
                not line.checked
                or line.within is not None
                or (words_of_new.issuperset(line.inner) and line.text in texts_of_new)
            ):
                line.within = self._container(line, everything)
        for line in self._lines.values():
            line.checked = True
        return {line.text for line in self._lines.values() if line.within is not None}

    def _forget_others(self) -> None:
        for line in [line for line in self._lines.values() if line.turn != self._turn]:
            del self._lines[line.text]
            for word in line.words:
                found = self._by_word[word]
                del found[line.number]
                if not found:
                    del self._by_word[word]

    def _container(self, line: Line, everything: str) -> Line | None:
        """A line that this one is a part of."""
        among: Iterable[Line] = self._lines.values()
        if line.inner:
            among = min((self._by_word[word] for word in line.inner), key=len).values()
        elif everything.find(line.text, everything.index(line.text) + 1) < 0:
            return None
        return next((other for other in among if other is not line and line.text in other.text), None)
