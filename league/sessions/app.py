"""`league.train` and `league.resume`: a call becomes a session, which trains, and a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from league.config.written import Overrides
from league.errors import DEFAULT_STORE, UsageError, refuse_loading
from league.runtime.process import settings_kept
from league.runtime.ranks import joined
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks, callbacks_of
from league.sessions.exploitability import begin_exploiter, resume_exploiter
from league.sessions.following import follow_call, refuse_ranks, send_end
from league.sessions.leagues import begin_league, resume_league
from league.sessions.plans import TrainResult
from league.sessions.rewinding import rewind
from league.sessions.runs import begin_run, resume_run
from league.sessions.session import Session
from league.store import locks
from league.store.store import Store
from league.training.run import Callback


def train(
    stage: str = "test50k",
    *,
    preset: str = "fast",
    agent: str | None = None,
    env: object = None,
    run: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str | None = None,
    config_file: str | Path | None = None,
    overrides: Overrides = (),
    bots: object = None,
    sampler: object = None,
    policy: object = None,
    fresh: bool = False,
    league: str | Path | None = None,
    learner: str | None = None,
    on: str | None = None,
    against: str | None = None,
    games: int | None = None,
    own_weights: bool = False,
    begin_with: str | Path | None = None,
    store: str | Path = DEFAULT_STORE,
    callback: Callback | Sequence[Callback] | None = None,
) -> TrainResult:
    """Trains one run against its own snapshots and the game's bots, or a league of several, or an exploiter.

    Args:
        stage: how long: `smoke`, `test50k` or `10m`. `10m` carries on the newest finished `test50k` that has the same
            fingerprint and seed, unless `fresh`.
        preset: how wide; `auto` is sized to the device. An exploiter of a run has its run's.
        agent: the network's size, `small`; the game's own if not given. `overrides` lie above it.
        env: the game, by its name or address (docs/bring.md), or the module or class itself; without it the
            configuration's. An exploiter needs it where it is `against` a bot.
        run: its name; the next free `GAME-N`, `GAME-league-N` or `exploit-N` if not given. Each learner of a league is
            a run LEAGUE.NAME. A league or an exploiter of that name with the same settings goes on.
        steps: in all, instead of the stage's; the same as the override `run.total_steps`. An exploiter's: 100,000.
        seed: random seed. The learners of a league draw their own, and begin with the same weights.
        device: `auto`, `cuda`, `mps` or `cpu`.
        config_file: a TOML file laid over the preset.
        overrides: settings as `section.key=value`, or a dict of sections, `{"learner": {"gamma": 0.9}}`, laid over
            everything; in a league also `role.ROLE.FIGURE=value`.
        bots: bots in Python, by name (docs/bring.md): addresses or functions. `pool.mix` says how often the learner
            meets one, as `bot:NAME`; evaluations meet all.
        sampler: a custom one: an address, or a function of what is known of a group (`league.pool.samplers.Known`).
            In a league it draws within groups only.
        policy: a custom network: an address, or a function or class `(GameSpec, AgentConfig) -> nn.Module` that
            follows `league.types.Policy`.
        fresh: begins at step 0 where a run could be carried on.
        league: trains a league of main agents and exploiters: a TOML file (`league.pool.roster`), or `small`.
        learner: trains only this learner of the league, so that each can have a process of its own.
        on: trains the learners of the league, or the exploiter, on a Ray cluster, each in an actor: its address,
            `HOST:PORT`, `ray://HOST:PORT` or `auto`, or `local` for one of this machine that ends with the call. All
            nodes need this version of league; one of them has to see the store's folder.
        against: trains an exploiter of this frozen agent (`league.arena.agents.find_agent`), which meets it alone, and
            measures it in fresh matches: a lower bound of the agent's exploitability.
        games: the fresh matches of an exploiter, an even number; 400 if not given.
        own_weights: the exploiter begins with the agent's weights, and finds in few steps what a fresh one finds late.
        begin_with: begins with the weights of this agent, such as a clone (`league.imitate`): a folder or RUN@STEP. A
            KL divergence holds the learner near it, by the schedule `learner.begin_kl`. The run keeps a copy of it.
        store: the folder that has the run's folder, and those of others.
        callback: a callback, or several.

    Returns:
        Where it stands: of a league `league.sessions.leagues.LeagueResult`, of an exploiter
        `league.sessions.exploitability.Exploit`, which have more.

    Raises:
        ConfigError: settings that cannot be run, for want of memory too; nothing has been written.
        UsageError: keywords that do not go together, or a name that is taken.
        StoreError: the store cannot be used.
        LeagueError: the memory is used up later; the run's state has been saved.
    """
    return carry_out(Call(**locals()))


def resume(
    run: str,
    *,
    steps: int | None = None,
    at: int | None = None,
    name: str | None = None,
    take_over: bool = False,
    on: str | None = None,
    env: object = None,
    bots: object = None,
    sampler: object = None,
    policy: object = None,
    device: str | None = None,
    overrides: Overrides = (),
    store: str | Path = DEFAULT_STORE,
    callback: Callback | Sequence[Callback] | None = None,
) -> TrainResult:
    """Carries on what was stopped, from its last saved state, with the settings that it was started with.

    Args:
        run: its name: of a run, a league (each learner goes on), a learner LEAGUE.NAME (it alone) or an exploiter.
        steps: in all, beyond the stage's end, too: a finished run goes further, as if it had had them from the start.
        at: goes back: begins a new run with the state that `run` had at this step, or with the last kept one before;
            `run` is left as it is.
        name: with `at`, the new run's; the next free `GAME-N` if not given.
        take_over: ends the lock of another machine that has died, once it gave no sign of life for a minute. A process
            there that lives after all stops at its next write.
        on: a league or an exploiter goes on on this Ray cluster, as for `train`.
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
        As `train`.

    Raises:
        ConfigError: a setting that a run keeps, or settings that cannot be run, for want of memory too.
        LeagueError: as `train`.
        UsageError: there is no such run, it is finished, another process trains it, there is no state to go back to, or
            its game or a custom part has changed since, and was not named again.
        SnapshotError: its state is missing or damaged; nothing has been changed.
    """
    said = locals()
    return carry_out(Call(**{key: x for key, x in said.items() if key not in ("run", "name")}, resumes=run, run=name))


@settings_kept()
def carry_out(call: Call) -> TrainResult:
    """Trains what a call asks for, to its end or until a signal comes."""
    refuse_ranks(call)
    if call.on is not None:
        from league.sessions.cluster import train_on  # it needs Ray

        return train_on(call)
    with joined(callbacks_of(call.callback).say) as ranks:
        call = replace(call, ranks=ranks)
        if ranks is not None and ranks.rank:
            return follow_call(call, ranks)
        with open_session(call) as session:
            end = session.go()
        result = session.conclude(end)
        if ranks is not None:
            send_end(ranks, result)
    return result


@contextmanager
def open_session(call: Call) -> Iterator[Session]:
    """The session of a call, with its locks: what `train` and `resume` run to its end, and `Trainer` holds open.

    Raises:
        ConfigError, LeagueError, SnapshotError, StoreError, UsageError: as `train` and `resume`.
    """
    refuse_loading()
    refuse_ranks(call)
    callback = callbacks_of(call.callback)
    begin = begin_exploiter if call.against is not None else begin_run if call.league is None else begin_league
    with _resumed(call, callback) if call.resumes else begin(call, callback) as session:
        yield session


@contextmanager
def _resumed(call: Call, callback: Callbacks) -> Iterator[Session]:
    store, run = Store.open(Path(call.store), callback.say_or_log), call.resumes
    roles = {row.run: row.role for row in store.learners() if run in (row.league, row.run)}
    if call.ranks is not None and roles:
        raise UsageError(
            f"run={run}: {call.ranks.size} ranks train a run by itself, no league or exploiter; leave --ranks out"
        )
    for each in roles or [store.find_run(run).run]:
        store.brought(each)
    if call.take_over:
        for each in roles or [store.find_run(run).run]:
            locks.take_over(store.path / each / locks.LOCK, callback.say)
    resumed = resume_exploiter if "exploiter" in roles.values() else resume_league if roles else resume_run
    with (resumed if call.at is None else rewind)(store, call, callback) as session:
        yield session
