"""A person against an agent, in a window or in the browser; the match is stored as an import once it has ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from league.arena import hands_browser, hands_window, replays
from league.arena.agents import check_seed, find_agent, gather, store_for
from league.arena.hands import Ended, Table
from league.arena.parts import enter as enter_parts
from league.errors import DEFAULT_STORE, UsageError
from league.store.files import check_new


def play_by_hand(
    agent: str,
    *,
    seat: int = 0,
    name: str = "person",
    browser: bool = False,
    port: int = 0,
    out: str | Path | None = None,
    seed: int | None = None,
    greedy: bool = False,
    env: object = None,
    bots: object = None,
    policy: object = None,
    device: str = "auto",
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> Ended | None:
    """Plays a match of a person against an agent.

    When it ends it is written into the store as an import, so it counts for the leaderboard, and `league imports
    remove` takes it back. A match that is broken off is not.

    Args:
        agent, greedy, env, bots, policy, device, store, say: as for `evaluate`.
        seat: the person's.
        name: what the person is called there.
        browser: on a page of this machine, instead of in a window.
        port: of that page; 0 takes a free one.
        out: a new file, .replay, for the match.
        seed: of the match and of the agent's draws; None draws one.

    Returns:
        How it ended; None where it was broken off.

    Raises:
        UsageError: as `evaluate`; a game that cannot be played by hand, a port in use, no pygame, or no display.
        StoreError, SnapshotError: as `evaluate`.
    """
    path = None if out is None else Path(out)
    if path is not None:
        if path.suffix != replays.SUFFIX:
            raise UsageError(
                f"out={path}: must end in {replays.SUFFIX}, of which the watch command makes others; pass another --out"
            )
        check_new(path, "--out")
    chosen = secrets.randbelow(2**31) if seed is None else seed
    check_seed(chosen)
    opened = store_for(store, agent, say=say)
    given = enter_parts(bots, policy=policy, say=say)
    meeting = gather(opened, (find_agent(opened, agent),), env, device, say, given)
    table = Table(meeting, seat, chosen, greedy=greedy, name=name)
    tell = say or (lambda message: None)

    def finish() -> Ended:
        ended = table.ended(store, say)
        if path is not None:
            replays.save(ended.replay, path)
        return ended

    try:
        if browser:
            return hands_browser.play(table, port, finish, print if say is None else tell)
        if port:
            raise UsageError(f"port={port}: is of a page; pass --browser, too")
        return finish() if hands_window.play(table) else None
    finally:
        table.close()
