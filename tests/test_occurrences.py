"""Whether values occur in texts and lines that come and go: the same answers as looking at every one anew."""

from hypothesis import given
from hypothesis import strategies as st

from autocontext.entries import TOOL, Entry
from autocontext.occurrences import Line, Lines, Texts
from autocontext.values import occurs, words

parts = st.sampled_from(("app", "main.py", "user_id", "user_id_2", "4711", "7", "/", " ", ".", "中", "文", "é"))
texts = st.lists(parts, min_size=1, max_size=6).map("".join)
VALUES = ("app/main.py", "user_id", "4711", "main.py", "中文", "app", "/", "7.7")


@given(st.lists(st.tuples(st.booleans(), texts), max_size=40), st.data())
def test_a_value_is_held_as_if_every_text_was_looked_at(steps, data):
    found, there = Texts(), []
    for add, text in steps:
        if add:
            assert found.add(text) == (set() if text in there else set(words(text)))
            there.append(text)
        elif there:
            gone = data.draw(st.sampled_from(there))
            there.remove(gone)
            assert (found.remove(gone) >= 0) == (gone not in there)
        for value in VALUES:
            held = bool(words(value)) and any(occurs(value, t) for t in there)
            assert (found.holding(Entry(value)) >= 0) == held


def line_of(value: str, text: str, position: int) -> Line:
    entry = Entry(value)
    entry.add("m", (len(text), -position, 0, text, TOOL))
    return Line(entry, entry.best, 1)


@given(st.lists(st.lists(st.tuples(st.booleans(), st.sampled_from(VALUES), texts), max_size=6), max_size=8), st.data())
def test_lines_hold_and_contain_as_if_compared_one_by_one(turns, data):
    lines, chosen = Lines(), {}
    for position, turn in enumerate(turns):
        for add, value, around in turn:
            text = f"{value} {around}"
            if add and text not in chosen:
                chosen[text] = line_of(value, text, position)
                lines.add(chosen[text])
            elif not add and chosen:
                lines.remove(chosen.pop(data.draw(st.sampled_from(sorted(chosen)))))
        assert lines.tokens == len(chosen)
        shown = [a for a in chosen if not any(a != b and a in b for b in chosen)]
        assert lines.visible() == sorted(shown, key=lambda text: chosen[text].place)
        for value in VALUES:
            holding = [a for a in chosen if words(value) and occurs(value, a)]
            assert sorted(line.text for line in lines.holding(Entry(value))) == sorted(holding)
        some = {word for text in data.draw(st.lists(texts, max_size=3)) for word in words(text)}
        quoting = [a for a in chosen if (found := words(chosen[a].entry.value)) and some.issuperset(found)]
        assert sorted(line.text for line in lines.quoting(some)) == sorted(quoting)
