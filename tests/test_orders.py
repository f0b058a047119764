"""Nothing depends on an order that nobody gave: of a set (PYTHONHASHSEED), of a folder's files, of a query's rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from league.store.sql import queries
from tests.test_imports import modules

ANY_ORDER = {"sorted", "set", "frozenset", "any", "all", "sum", "max", "min", "len", "Counter", "union"}
"""Whoever is given something by these does not see its order."""
LISTS = {"list", "tuple", "enumerate", "zip", "map", "filter", "iter", "next", "reversed", "join", "extend", "fromkeys"}
"""Whoever is given something by these does."""
FOLDERS = {"glob", "rglob", "iterdir", "listdir", "scandir", "walk"}


def is_set(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is a set, as far as its form and the names of sets tell."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(attr="union" | "intersection" | "difference" | "symmetric_difference")):
            return True
        case ast.Call(func=ast.Subscript(value=ast.Name(id="set" | "frozenset"))):
            return True
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            sides = (node.left, node.right)
            return any(is_set(side, names) or ast.unparse(side).endswith((".keys()", ".items()")) for side in sides)
        case ast.IfExp():
            return is_set(node.body, names) or is_set(node.orelse, names)
        case ast.Name() | ast.Attribute():
            return ast.unparse(node) in names
        case _:
            return False


def is_folder(node: ast.AST) -> bool:
    """Whether an expression lists a folder."""
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return name.split(".")[-1] in FOLDERS and name != "ast.walk"


def set_names(scope: ast.AST) -> set[str]:
    """Names, arguments and attributes of a stretch of code that are sets."""
    names: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.arg) and node.annotation is not None:
            names |= {node.arg} if re.match(r"(frozen)?set\b", ast.unparse(node.annotation)) else set()
        elif isinstance(node, ast.AnnAssign) and re.match(r"(frozen)?set\b", ast.unparse(node.annotation)):
            names.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign) and is_set(node.value, set()):
            names |= {ast.unparse(target) for target in node.targets}
    return names


def in_any_order(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every set or folder that is gone through where the order is seen."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    inside = [set_names(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    attributes = {name for names in inside for name in names if "." in name}

    def scope_of(node: ast.AST) -> ast.AST:
        while node in parents and not isinstance(node, ast.FunctionDef):
            node = parents[node]
        return node

    def is_seen(node: ast.AST) -> bool:
        """Whether what is made of an expression, or by a comprehension, has an order that somebody sees."""
        above = parents[node]
        if isinstance(above, ast.Call) and node in above.args:
            return ast.unparse(above.func).split(".")[-1] not in ANY_ORDER
        return not isinstance(above, ast.Compare)

    for node in ast.walk(tree):
        iterated: list[ast.expr] = []
        match node:
            case ast.For():
                iterated = [node.iter]
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                iterated = [generator.iter for generator in node.generators] if is_seen(node) else []
            case ast.Starred() if not isinstance(parents[node], ast.Set):
                iterated = [node.value] if is_seen(node) else []
            case ast.Call() if ast.unparse(node.func).split(".")[-1] in LISTS:
                iterated = list(node.args) if is_seen(node) else []
        for each in iterated:
            if is_folder(each) or is_set(each, set_names(scope_of(node)) | attributes):
                yield node.lineno, ast.unparse(each)


def test_no_order_comes_from_a_set_or_a_folder() -> None:
    """Whoever goes through a set of names, or the files of a folder, sorts them first or sees no order."""
    found = [f"{name}, line {line}: {text}" for name, tree in modules().items() for line, text in in_any_order(tree)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("for x in a.keys() - {b}: pass", True),
        ("def f(a: set[str]):\n  return [x for x in a]", True),
        ("class A:\n  def f(self):\n    self.a: set[str] = set()\n  def g(self):\n    return list(self.a)", True),
        ("f(*{a, b})", True),
        ("for path in folder.glob('*'): pass", True),
        ("names = {a, b}\n','.join(names)", True),
        ("for x in sorted(a.keys() - {b}): pass", False),
        ("any(x for x in {a, b})", False),
        ("{*a, *{b}}", False),
        ("sum(f(path) for path in folder.glob('*'))", False),
    ],
)
def test_the_search_sees_sets(code: str, is_found: bool) -> None:
    """It finds what it looks for, and leaves what has an order alone."""
    assert bool(list(in_any_order(ast.parse(code)))) == is_found


LOOKED_UP = {"agent_games", "champions", "meetings", "pair_counts"}
LOOKED_UP |= {"left_out", "new_names", "odd_moments"}
"""Queries whose rows are put into a dict, in which they are looked up, or sorted by agent."""
ONE_ROW = {"alarm_seats", "alarm_seats_apart", "game", "is_listed", "replay_content"}


def test_rows_have_an_order() -> None:
    """Every named query that is read says in which order, but for one row and for rows that are looked up."""
    without = set()
    for name, text in queries().items():
        statement = re.sub(r"--[^\n]*", "", text).strip()
        if statement.startswith(("SELECT", "WITH", "FROM")) and "ORDER BY" not in statement:
            without.add(name)
    assert without == LOOKED_UP | ONE_ROW
