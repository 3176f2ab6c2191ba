"""Contents, memories and saved states move between databases with every byte."""

import pytest

from autocontext import AutoContext, Msg
from tests.stores.homes import home


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("file", "postgresql"), ("postgresql", "file"), ("file", "file")])
def test_everything_moves_and_the_session_goes_on_there(first, second, tmp_path):
    with home(first, tmp_path) as there, home(second, tmp_path) as here:
        old, new = AutoContext.open(there), AutoContext.open(here)
        session = old.session("s", user_id="u")
        session.add(Msg(role="user", content="hello"))
        refs = [old.content.put(f"content {i} \udcff" * 5_000, key=f"k{i}", namespace="user:u").ref for i in range(7)]
        blob = old.content.put(bytes(range(256)), namespace="user:u").ref
        for i in range(450):
            old.memories.add(f"fact number {i}", user_id="u", tags=[f"t{i % 3}"])
        session.save()
        told = []
        old.copy_to(new, progress=lambda *args: told.append(args))
        assert told[0] == ("session 1 of 1: s", 1.0)
        assert told[-1] == ("autocontext_states: 1 rows", None)
        old.copy_to(new)  # nothing is doubled
        for i, ref in enumerate(refs):
            assert new.content.read(ref, namespace="user:u").text == f"content {i} \udcff" * 5_000
            assert new.content.read(f"k{i}", namespace="user:u") == new.content.read(ref, namespace="user:u")
        assert new.content.read_bytes(blob, namespace="user:u") == bytes(range(256))
        assert new.memories.stats(user_id="u") == old.memories.stats(user_id="u")
        assert new.memories.search("fact 77", user_id="u")[0].memory.content == "fact number 77"
        moved = new.session("s", user_id="u")
        assert moved.memory.messages == session.memory.messages
        assert moved.state() == session.state()
        moved.add(Msg(role="assistant", content="hi"))
        old.close()
        new.close()
