"""How a run, a league or an exploiter goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from league.config.written import Overrides, as_words
from league.errors import DEFAULT_STORE, UsageError
from league.sessions.app import Again, resumed
from league.sessions.callbacks import steady
from league.sessions.exploitability import Exploit, resume_exploiter
from league.sessions.leagues import LeagueResult, resume_league
from league.sessions.rewinding import rewound
from league.sessions.session import TrainResult
from league.signals import settings_kept
from league.store import locks
from league.store.store import Store
from league.training.run import Callback


@settings_kept()
def resume(
    run: str,
    *,
    steps: int | None = None,
    at: int | None = None,
    name: str | None = None,
    take_over: bool = False,
    env: object = None,
    bots: object = None,
    sampler: object = None,
    policy: object = None,
    device: str | None = None,
    overrides: Overrides = (),
    store: str | Path = DEFAULT_STORE,
    callback: Callback | Sequence[Callback] | None = None,
) -> TrainResult | LeagueResult | Exploit:
    """Carries on what was stopped, from its last saved state, with the settings that it was started with.

    Args:
        run: its name: of a run, a league (each learner goes on), a learner LEAGUE.NAME (it alone) or an exploiter.
        steps: in all, beyond the stage's end, too: a finished run goes further, as if it had had them from the start.
        at: goes back: begins a new run with the state that `run` had at this step, or with the last kept one before;
            `run` is left as it is.
        name: with `at`, the new run's; the next free `GAME-N` if not given.
        take_over: ends the lock of another machine that has died, once it gave no sign of life for a minute. A process
            there that lives after all stops at its next write.
        env: where its game is, if it is to be named again (docs/bring.md).
        bots, sampler, policy: as for `train`, those of the run that are to be named again (docs/bring.md). With other
            code than before the run has a fingerprint that no other has, and an event says so.
        device: another one than before; what differs there is said, and an event.
        overrides: settings of `league.config.CHANGEABLE` that the run has from now on. One that changes learning gives
            it a fingerprint that no other run has, so no longer stage carries it on; with other `env.rows` the matches
            in play are dropped, their number is said, and new ones begin.
        store: its folder.
        callback: a callback, or several.

    Returns:
        As `train`, `train_league` or `exploit`.

    Raises:
        ConfigError: a setting that a run keeps, or settings that cannot be run, for want of memory too.
        LeagueError: as `train`.
        UsageError: there is no such run, it is finished, another process trains it, there is no state to go back to, or
            its game or a custom part has changed since, and was not named again.
        SnapshotError: its state is missing or damaged; nothing has been changed.
    """
    callback, say = steady(callback)
    opened = Store.open(Path(store), say)
    own = {"bots": bots, "sampler": sampler, "policy": policy}
    again = Again(env, own, device, as_words(overrides, steps=steps))
    roles = {row.run: row.role for row in opened.learners() if run in (row.league, row.run)}
    if name is not None and at is None:
        raise UsageError(f"name={name}: a run keeps its name; give `at`, too, to begin a new one from a kept state")
    if take_over:
        for each in roles or [opened.find_run(run).run]:
            locks.take_over(opened.path / each / locks.LOCK, callback.say)
    if at is not None:
        with rewound(opened, run, at, name, again, callback) as session:
            return session.go().results[0]
    if "exploiter" in roles.values():
        return resume_exploiter(opened, run, again, callback)
    if roles:
        return resume_league(opened, run, again, callback)
    with resumed(opened, run, again, callback) as session:
        return session.go().results[0]
