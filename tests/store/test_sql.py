"""The named queries: each has a name and a use, and prepares against the tables of a fresh store."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from pathlib import Path

import pytest

import league
from league.errors import UsageError
from league.store.checking import CheckedGames
from league.store.codec import KINDS
from league.store.sql import queries, sql
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
            by_others = {"make_tables", "make_evaluation_game", "make_objects", "make_given", "make_checked"}
            assert name in by_others | {"make_seated"}
            return
        with suppress(UsageError):  # of a file without games, which makes the tables of an import
            CheckedGames(con, b'{"seat0": "?", "seat1": "b", "winner": 0}', "m.jsonl", max, games={})
        con.execute(f"PREPARE one AS {sql(name)}")
        con.execute("DEALLOCATE one")


ASKS = {"sql", "select", "select_rows", "_select", "_run", "statement"}
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


def test_each_query_has_a_name_of_its_own_and_says_what_it_answers() -> None:
    """No query replaces another or stands before the first name, and a comment begins each."""
    files = [path.read_text() for path in sorted((LEAGUE / "store" / "sql").glob("*.sql"))]
    assert all(file.startswith("-- name: ") for file in files)
    assert sum(line.startswith("-- name:") for file in files for line in file.splitlines()) == len(queries())
    assert all(re.fullmatch(r"[a-z]\w*", name) and text.startswith("-- ") for name, text in queries().items())
