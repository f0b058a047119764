"""Cases of a test, some of which only `make slow` runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def cases(*usual: Any, slow: Iterable[Any] = ()) -> list[Any]:
    """The values of `pytest.mark.parametrize`, a tuple for several names; what is in `slow` alone is marked."""
    rest = [x for x in slow if x not in usual]
    return [*usual, *(pytest.param(*(x if isinstance(x, tuple) else (x,)), marks=pytest.mark.slow) for x in rest)]
