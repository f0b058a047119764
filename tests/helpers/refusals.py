"""What a call is refused with."""

from collections.abc import Callable

import pytest

from league.errors import LeagueError


def refusal(call: Callable[[], object], kind: type[LeagueError] = LeagueError) -> str:
    """The one line with which `call` is refused."""
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)
