"""Whether values occur in texts that come and go: the same answers as looking at every text anew."""

from hypothesis import given
from hypothesis import strategies as st

from autocontext.occurrences import Lines, Sought, Texts
from autocontext.values import occurs, words

parts = st.sampled_from(("app", "main.py", "user_id", "user_id_2", "4711", "7", "/", " ", ".", "中", "文", "é"))
texts = st.lists(parts, min_size=1, max_size=6).map("".join)
VALUES = ("app/main.py", "user_id", "4711", "main.py", "中文", "app", "/", "7.7")


@given(st.lists(st.tuples(st.sampled_from(("add", "remove", "end")), texts), max_size=40), st.data())
def test_a_value_is_held_as_if_every_text_was_looked_at(steps, data):
    found, there = Texts(), []
    sought = {value: Sought(value) for value in VALUES}
    for step, text in steps:
        if step == "add":
            found.add(text)
            there.append(text)
        elif step == "remove" and there:
            gone = data.draw(st.sampled_from(there))
            there.remove(gone)
            assert (found.remove(gone) >= 0) == (gone not in there)
        else:
            found.end()
        for value in data.draw(st.sets(st.sampled_from(VALUES))):
            assert found.hold(sought[value]) == (bool(words(value)) and any(occurs(value, t) for t in there))


@given(st.lists(texts), st.lists(texts), st.sampled_from(VALUES))
def test_what_was_found_missing_can_only_be_in_texts_with_a_new_word(before, after, value):
    found, sought = Texts(), Sought(value)
    for text in before:
        found.add(text)
    missing = not found.hold(sought)
    found.end()
    for text in after:
        found.add(text)
    if missing and sought.rare not in found.new:
        assert not found.hold(sought)


@given(st.lists(st.lists(st.tuples(st.sampled_from(VALUES), texts), max_size=8), max_size=6))
def test_lines_quote_and_contain_each_other_as_if_compared_one_by_one(turns):
    lines = Lines()
    sought = {value: Sought(value) for value in VALUES}
    for turn in turns:
        lines.begin()
        chosen: list[str] = []
        for value, around in turn:
            own = f"{value} {around}"
            quoted = any(occurs(value, line) for line in chosen)
            assert lines.quote(sought[value], own) == (quoted and bool(words(value)))
            if not quoted:
                lines.choose(own)
                chosen.append(own)
        assert lines.end() == {a for a in chosen for b in chosen if a != b and a in b}
