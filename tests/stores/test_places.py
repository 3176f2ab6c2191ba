"""Places: every table and column of every part is listed, and erasing a session reaches all of them."""

import re
from pathlib import Path

import pytest

from tests.extras import need

need("crypto")

import autocontext
from autocontext.cache import rows as cache_rows
from autocontext.content import queries
from autocontext.errors import StoreError
from autocontext.memories import schema
from autocontext.optimizer import states
from autocontext.stores import encrypted_database, session_statements
from autocontext.stores.database import Statement
from autocontext.stores.places import PLACES
from tests.stores.homes import database

PACKAGE = Path(autocontext.__file__).parent
SCHEMAS = [m.SCHEMA for m in (session_statements, states, queries, cache_rows, schema, encrypted_database)]
_COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info(:name)",
    "postgresql": (
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = :name"
    ),
}
_TABLE = re.compile(r"\s*CREATE TABLE (\w+)\s*\(")
_DROPPED = re.compile(r"\s*DROP TABLE (\w+)")
_KEY = re.compile(r"PRIMARY KEY \(([^)]*)\)")
_ONE_COLUMN_KEY = re.compile(r"(\w+) \w+ PRIMARY KEY")


def tables_of(schema):
    """The tables that a schema creates and keeps, with the columns of their keys."""
    statements = [sql for version in schema.versions for sql in version]
    dropped = {match[1] for sql in statements if (match := _DROPPED.match(sql))}
    for statement in statements:
        if (match := _TABLE.match(statement)) and match[1] not in dropped:
            key = _KEY.search(statement) or _ONE_COLUMN_KEY.search(statement)
            yield match[1], tuple(name.strip() for name in key[1].split(","))


def test_row_04_no_part_has_a_schema_that_this_test_forgets():
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    assert {path for path, text in sources.items() if re.search(r"= Schema\(", text)} == {
        "stores/session_statements.py", "stores/encrypted_database.py", "optimizer/states.py", "content/queries.py",
        "cache/rows.py", "memories/schema.py",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["memory", "postgresql"])
def test_row_04_every_table_and_column_of_every_part_is_a_place(kind, tmp_path):
    with database(kind, tmp_path) as db:
        for each in SCHEMAS:
            db.ensure(each)
            tables = dict(tables_of(each))
            places = [place for place in PLACES if place.part == each.part]
            assert {place.table: place.key for place in places} == tables
            for place in places:
                columns = db.read(lambda t=place.table: (yield Statement(_COLUMNS[db.dialect], {"name": t})))
                assert {name for (name,) in columns} == set(place.columns)


_COMPARED = re.compile(r"\b(\w+) (?:=|<>|<=|>=|<|>) :(\w+)")
_SEALED = {column for place in PLACES if place.part != "sessions" for column in (*place.texts, *place.names)}


def test_what_is_sealed_is_named_in_its_statements():
    """An encrypted database goes by the names of parameters: see `stores/statement_columns.py`."""
    named = [
        (path.name, column, param)
        for path in PACKAGE.rglob("*.py")
        if path.name != "session_statements.py" and "autocontext_" in (text := path.read_text("utf-8"))
        for column, param in _COMPARED.findall(text)
        if column in _SEALED or param in _SEALED
    ]
    assert len(named) > 20
    assert [each for each in named if each[1] != each[2].removesuffix("_prefix")] == []


def test_a_text_under_the_name_of_no_column_is_refused(tmp_path):
    with database("memory", tmp_path) as beneath:
        db = encrypted_database.EncryptedDatabase(beneath, b"k" * 32)
        db.ensure(schema.SCHEMA)
        put = "INSERT INTO autocontext_memory_block (user_id, block, body) VALUES (:user_id, 1, :text)"
        with pytest.raises(StoreError, match="its parameter 'text' has no name of one column"):
            db.write(lambda: (yield Statement(put, {"user_id": "u", "text": "said"})))
        assert beneath.read(lambda: (yield Statement("SELECT * FROM autocontext_memory_block"))) == []
