"""The named queries: each has a name and a use, and prepares against the tables of a fresh store."""

from __future__ import annotations

import ast
from contextlib import suppress
from pathlib import Path

import pytest

import league
from league.errors import UsageError, nearest
from league.store.checking import CheckedGames
from league.store.codec import KINDS
from league.store.sql import named_queries, queries, sql
from league.store.view import View

LEAGUE = Path(league.__file__).parent


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> View:
    """The tables of a store without owners."""
    return View(tmp_path_factory.mktemp("sql"), pytest.fail)


@pytest.mark.parametrize("name", queries())
def test_every_query_prepares_against_a_fresh_store(fresh: View, name: str) -> None:
    """The tables and views have the columns that a query names."""
    with fresh.reading():
        con = fresh.cursor(" ".join(KINDS))
        if name.startswith("make_"):
            assert name in ("make_tables", "make_evaluation_game", "make_given", "make_checked", "make_seated"), (
                "run by others"
            )
            return
        with suppress(UsageError):  # of a file without games, which makes the tables of an import
            CheckedGames(con, b'{"seat0": "?", "seat1": "b", "winner": 0}', "m.jsonl", max, games={})
        con.execute(f"PREPARE one AS {sql(name)}")
        con.execute("DEALLOCATE one")


ASKS = {"sql", "select", "select_rows", "_select", "_rows", "_run", "statement"}
"""Functions that are given the name of a query."""


def test_every_query_is_used_and_every_name_that_is_used_exists() -> None:
    """No query lies about and no name is misspelt: what the code asks for by name is what the files hold."""
    asked = set()
    for path in LEAGUE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ASKS:
                constants = [value for value in node.args if isinstance(value, ast.Constant)]
                asked |= {value.value for value in constants if isinstance(value.value, str)}
    assert asked == queries().keys()


def test_a_name_that_is_none_is_an_error_with_the_nearest() -> None:
    """A misspelt name says which was meant."""
    with pytest.raises(KeyError, match=r"no query `snapshot`.*did you mean `snapshots`"):
        sql("snapshot")
    assert nearest("snapshot", queries()) == "; did you mean `snapshots`?"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("-- name: a\n-- One.\nSELECT 1;\n-- name: a\n-- Two.\nSELECT 2;", "a query `a` already"),
        ("SELECT 1;\n-- name: a\n-- One.\nSELECT 1;", "without a name"),
        ("-- name: a\nSELECT 1;", "`a` does not say what it answers"),
        ("-- name: An A\n-- One.\nSELECT 1;", "`An A` cannot name a query"),
    ],
)
def test_bad_query_files_are_refused(content: str, problem: str) -> None:
    """A name that stands twice or is none, and a query without a name or a comment, are errors with the file."""
    with pytest.raises(ValueError, match=f"x.sql: .*{problem}"):
        named_queries({"x.sql": content})
    with pytest.raises(ValueError, match="already"):
        named_queries({"x.sql": "-- name: a\n-- One.\nSELECT 1;", "y.sql": "-- name: a\n-- One.\nSELECT 1;"})


def test_queries_keep_their_comment_and_end_at_the_next() -> None:
    """A file's queries are parted at their names."""
    found = named_queries({"x.sql": "-- name: a\n-- One.\nSELECT 1;\n\n-- name: b\n-- Two.\nSELECT 2;\n"})
    assert found == {"a": "-- One.\nSELECT 1;", "b": "-- Two.\nSELECT 2;"}
