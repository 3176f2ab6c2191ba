"""A result that is stored again: what erasing finds it by is written only where it has changed."""

from collections import Counter

from autocontext.cache import ResultCache
from autocontext.stores.database import Statement
from autocontext.stores.sqlite_database import SqliteDatabase


class Written(SqliteDatabase):
    """Notes down the rows of marks that are written."""

    def __init__(self, url):
        self.marks = Counter()
        super().__init__(url)

    def _rows(self, connection, statement):
        if "autocontext_cache_mark " in statement.sql and isinstance(statement.params, list):
            self.marks[statement.sql.partition(" ")[0]] += len(statement.params)
        return super()._rows(connection, statement)


def marks(database):
    return {row[0] for row in database.read(lambda: (yield Statement("SELECT mark FROM autocontext_cache_mark")))}


def test_marks_are_written_only_where_they_have_changed(tmp_path):
    database, other = Written(tmp_path / "a.db"), Written(tmp_path / "b.db")
    with ResultCache(database, namespace="n") as cache, ResultCache(other, namespace="n") as fresh:
        assert cache.set("look_up:1", {"page": "the first page", "next": "the second page"})
        assert database.marks["INSERT"] == len(marks(database)) > 2
        database.marks.clear()
        assert cache.set("look_up:1", {"page": "the first page", "next": "the second page"})
        assert not database.marks
        assert cache.set("look_up:1", {"page": "the first page", "next": "the third page"})
        assert 0 < database.marks["DELETE"] == database.marks["INSERT"] < len(marks(database))
        assert fresh.set("look_up:1", {"page": "the first page", "next": "the third page"})
        assert marks(database) == marks(other)
