"""`league.sweep`: settings are searched with Optuna, and each is judged on as many seeds as it takes.

An Optuna trial is a setting. Its runs have the seeds that all settings have, in the same order. A setting is stopped
after a run if it is worse than the best: the 95 % interval of the difference of their means is below 0, by a variance
that is pooled over all settings (`league.maths.racing`). Every other setting, the best among them, gets all seeds.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from league.boards.leaderboards import Rated
from league.errors import DEFAULT_STORE, LeagueError, StoreError, UsageError, command
from league.maths.racing import is_worse
from league.runtime.cluster import (
    RESTARTS,
    Calls,
    ClusterActor,
    Room,
    absolute,
    connected,
    files_of,
    last_line,
    need_store,
    nodes_of,
    nonce_in,
)
from league.runtime.interpreter import python
from league.runtime.process import settings_kept
from league.runtime.sent import collected
from league.sessions.objectives import Measured, Say, trained
from league.sessions.sweep_files import SweepSpace
from league.sessions.sweep_journal import SEEDS, Journal, journal_path
from league.sessions.sweep_results import SweepResult, result_of
from league.store.files import store_folder
from league.store.locks import held
from league.store.store import Store
from league.training.run import Callback
from league.types import BOT_PREFIX
from league.types.schema import check_number

if TYPE_CHECKING:
    import optuna

MAX_TRIALS, MAX_JOBS = 100_000, 256
LOOK_SECONDS = 5.0
"""Between two looks at the settings that a cluster tries."""
MOST_FAILED = 3
"""Settings that may fail where none has ended well."""


@settings_kept()
def sweep(
    file: str | Path,
    trials: int = 30,
    *,
    jobs: int = 1,
    on: str | None = None,
    store: str | Path = DEFAULT_STORE,
    say: Say | None = None,
) -> SweepResult:
    """Searches settings until `trials` of them are judged, or goes on with the sweep of this file in the store.

    Every run is an ordinary one of the store, called SWEEP-tTRIAL-sN.

    Args:
        file: a TOML file (docs/guides/sweeps.md).
        trials: settings in all, those of earlier calls among them.
        jobs: processes that try settings at once, each with one thread unless OMP_NUM_THREADS says otherwise. Another
            call, in another shell, may help.
        on: a Ray cluster, as for `league.train`, of which each job takes a core, and a GPU if the runs are on CUDA. All
            its nodes have to see the store's folder and the file.
        store: the folder of the runs and of Optuna's journal.
        say: receives a line a run.

    Raises:
        ConfigError: the file, or what it says, cannot be; nothing has been started.
        UsageError: Optuna is not installed, a number out of range, or the store has another sweep of this name.
        StoreError: the store or the journal cannot be used.
        LeagueError: the first settings have all failed.
    """
    _need_optuna()
    check_number("trials", trials, 1, MAX_TRIALS, "settings that are tried")
    check_number("jobs", jobs, 1, MAX_JOBS, "processes that try settings")
    space = SweepSpace(Path(file), Path(store))
    folder = Store.create(Path(store), say).path
    journal = Journal(space, folder)
    number = 0
    if on is not None:
        _work_on(on, journal, Path(file), trials, jobs, say or (lambda line: None))
    elif jobs == 1:
        number = _Worker(journal, trials, say or (lambda line: None)).work()
    else:
        _work_apart(Path(file), trials, jobs, folder, say)
    return result_of(journal, number)


def read_sweep(file: str | Path, store: str | Path = DEFAULT_STORE) -> SweepResult:
    """Where the sweep of a file stands; tries nothing.

    Raises:
        ConfigError, StoreError, UsageError: as `sweep`, or it has not begun.
    """
    _need_optuna()
    space = SweepSpace(Path(file), Path(store))
    folder = store_folder(store)
    if not journal_path(space, folder).exists():
        raise UsageError(f"no sweep {space.name} in {store}; begin it with {command('sweep', file, store=folder)}")
    return result_of(Journal(space, folder))


class _Worker:
    """Tries settings, one after the other."""

    def __init__(self, journal: Journal, trials: int, say: Say) -> None:
        self.journal, self.trials, self.say = journal, trials, say

    def work(self) -> int:
        """Until there are enough settings; the number of the signal that ended it, else 0."""
        lock = f".{self.journal.space.name}.sweep-{secrets.token_hex(4)}.lock"
        with held(self.journal.store / lock):
            while (drawn := self.journal.draw(self.trials, lock)) is not None:
                if number := self._judge(*drawn):
                    return number
        return 0

    def _judge(self, trial: optuna.Trial, values: Mapping[str, Any]) -> int:
        from optuna.trial import TrialState

        study = self.journal.study
        try:
            number = self._race(trial, values)
        except StoreError:
            raise
        except LeagueError as error:
            trial.set_user_attr("error", str(error))
            study.tell(trial, state=TrialState.FAIL)
            states = [x.state for x in study.get_trials(deepcopy=False)]
            if states.count(TrialState.FAIL) >= MOST_FAILED and TrialState.COMPLETE not in states:
                raise
            self.say(f"trial {trial.number} failed: {error}")
            return 0
        if number < 0:
            study.tell(trial, state=TrialState.PRUNED)
            self.say(f"trial {trial.number} pruned")
        elif number == 0:
            seeds = [s["value"] for s in trial.user_attrs[SEEDS]]
            study.tell(trial, sum(seeds) / len(seeds))
        return max(number, 0)

    def _race(self, trial: optuna.Trial, values: Mapping[str, Any]) -> int:
        """Plays a setting's seeds until it is told from the best; 0, a signal's number, or -1: pruned."""
        journal, training = self.journal, self.journal.space.file.train
        done: list[dict[str, Any]] = list(trial.user_attrs.get(SEEDS, []))
        while len(done) < journal.space.file.seeds:
            seed, name = training.seed + len(done), f"{journal.space.name}-t{trial.number:03}-s{len(done) + 1}"
            watch = [] if done or journal.space.file.pruner == "none" else [_Readings(trial, journal.sign)]
            run, number = trained(name, seed, training, journal.space.sets(values), journal.store, watch)
            if number:
                return number
            found = journal.objective.measure(run, seed, journal.store, training.env)
            if not isinstance(found, Measured):
                return found
            done.append({"run": run, "seed": seed, "value": found.value, "error": found.error})
            trial.set_user_attr(SEEDS, done)
            shown = ", ".join(f"{key}={x:.4g}" if isinstance(x, float) else f"{key}={x}" for key, x in values.items())
            self.say(f"{run}: {journal.objective.kind} {found.value:.4g} +- {found.error:.2g}; {shown}")
            leader = journal.leader()
            if leader is not None and is_worse([s["value"] for s in done], leader, journal.spread(), journal.sign):
                break
        return 0


class _Readings(Callback):
    """Reports a run's ratings above the mean of the bots to Optuna, and ends the run that its pruner gives up."""

    def __init__(self, trial: optuna.Trial, sign: int) -> None:
        self.trial, self.sign, self.total = trial, sign, 0
        self.seen = set(trial.study.trials[trial.number].intermediate_values)
        """Steps reported before the run was killed."""

    def began(self, start: Any) -> None:
        """Where it will end: its last reading prunes nothing."""
        self.total = start.total_steps

    def rated(self, steps: int, ratings: Sequence[Rated]) -> bool | None:
        """After an evaluation."""
        own = [x.rating for x in ratings if x.is_newest]
        bots = [x.rating for x in ratings if x.name.startswith(BOT_PREFIX)]
        if not own or not bots or steps >= self.total or steps in self.seen:
            return None
        self.trial.report(self.sign * (own[0] - sum(bots) / len(bots)), steps)
        return False if self.trial.should_prune() else None


def _work_apart(file: Path, trials: int, jobs: int, store: Path, say: Callable[[str], None] | None) -> None:
    """Lets `jobs` processes of one thread each try settings; a signal here ends them, saved.

    Raises:
        LeagueError: one of them failed.
    """
    code = "from league.cli import main\nmain()"
    words = ["sweep", file, "--trials", trials, "--store", store, *(["--quiet"] if say is None else [])]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    children: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(jobs):
            children.append(
                subprocess.Popen(
                    python(code, *words), env=environment, stdout=subprocess.DEVNULL, start_new_session=True
                )
            )
        codes = [child.wait() for child in children]
    except BaseException:
        for child in children:
            child.send_signal(signal.SIGINT)
        for child in children:
            child.wait()
        raise
    if bad := [code for code in codes if code]:
        again = command("sweep", file, store=store)
        raise LeagueError(f"{len(bad)} of {jobs} jobs ended with code {bad[0]}, as said above; {again} goes on")


class SweepActor(ClusterActor):
    """Tries settings on a node of a cluster."""

    def work(self, file: str, trials: int, store: str) -> str:
        """As `sweep` by one job; what is wrong, since an exception would be pickled."""
        try:
            sweep(file, trials, store=store)
        except LeagueError as error:
            return str(error)
        return ""


def _work_on(address: str, journal: Journal, file: Path, trials: int, jobs: int, say: Say) -> None:
    """Lets `jobs` actors try settings; one whose node goes away begins on another, with the trial that it was at.

    Raises:
        UsageError: as `connected`, `absolute`, `nodes_of` and `need_store`.
        LeagueError: one of them failed.
    """
    train, path = journal.space.file.train, str(file.absolute())
    room = Room(1.0, float((train.device or "").startswith("cuda")))
    own = [Path(name).absolute() for name in (file, train.config) if name]
    with connected(address, [room] * jobs) as ray, nonce_in(journal.store) as nonce:
        nodes = nodes_of(ray, nonce)
        need_store(nodes, journal.store)
        say(f"on {address}: {', '.join(node.name for node in nodes)}")
        often = {"max_restarts": RESTARTS, "max_task_retries": -1}
        made = ray.remote(SweepActor).options(num_cpus=room.cpus, num_gpus=room.gpus, **often)
        files = collected(own) | files_of(absolute(train.env))

        def begin() -> tuple[Any, Any]:
            actor = made.remote(os.getcwd(), files)
            return actor, actor.work.remote(path, trials, str(journal.store))

        calls, wrong, judged = Calls(ray, {str(job): begin for job in range(jobs)}), list[str](), 0
        while calls.running:
            for answer in calls.ended(LOOK_SECONDS).values():
                is_lost = isinstance(answer, Exception)
                wrong.append(f"on {address}: a node failed ({last_line(answer)})" if is_lost else answer)
            before, judged = judged, sum(trial.state.is_finished() for trial in journal.study.trials)
            if judged > before:
                say(f"{judged} of {trials} settings are judged")
    if bad := [text for text in wrong if text]:
        raise LeagueError(f"{bad[0]}; {command('sweep', file, '--on', address, store=journal.store)} goes on")


def _need_optuna() -> None:
    if find_spec("optuna") is None:
        raise UsageError("sweeps need Optuna, which is not installed; run `pip install 'league-engine[sweep]'`")
