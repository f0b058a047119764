"""A sweep in its store: Optuna's study in a journal, from which one process at a time draws a setting."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from league.config.written import toml
from league.errors import StoreError, UsageError
from league.maths.racing import SeedSpread, pooled
from league.sessions.sweep_files import SweepSpace
from league.store.locks import LockHeld, held, is_held

if TYPE_CHECKING:
    import optuna

WAIT_SECONDS = 60.0
"""For another process to have drawn its setting."""
SEEDS, WORKER = "seeds", "worker"
"""Attributes of a trial: its finished runs, and the lock of the process that has it."""


def journal_path(space: SweepSpace, store: Path) -> Path:
    """Of Optuna's journal; absolute, since its lock is a link to it."""
    return store.absolute() / f"{space.name}.sweep.jsonl"


class Journal:
    """The study of a sweep, which is begun where there is none.

    Raises:
        StoreError: the journal is damaged. UsageError: it is of another space.
    """

    def __init__(self, space: SweepSpace, store: Path) -> None:
        import optuna
        from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self.space, self.store, self.path = space, store, journal_path(space, store)
        objective, self.sign = space.file.objective, space.file.objective.sign
        lock = JournalFileSymlinkLock(str(self.path))
        with self.alone():
            _mend(self.path, lock)
            try:
                storage = optuna.storages.JournalStorage(JournalFileBackend(str(self.path), lock))
                self.study = optuna.create_study(
                    storage=storage,
                    study_name=space.name,
                    direction="maximize" if self.sign > 0 else "minimize",
                    load_if_exists=True,
                )
                then = self.study.user_attrs.get("sweep")
            except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
                words = " ".join(str(error).split())[:100]
                raise _damaged(self.path, words) from None
            now = space.to_json()
            if then is None:
                self.study.set_user_attr("sweep", now)
                if (values := space.defaults()) is not None:
                    self.study.enqueue_trial({name: _code(value) for name, value in values.items()})
            elif then != now:
                names = ", ".join(f"[{name}]" for name in now if then.get(name) != now[name])
                raise UsageError(
                    f"{space.path}: {self.path.name} was begun with another {names}; give the file another name, or the"
                    f" tables that it had"
                )
        pruners = {
            "none": optuna.pruners.NopPruner,
            "median": optuna.pruners.MedianPruner,
            "halving": optuna.pruners.SuccessiveHalvingPruner,
            "hyperband": optuna.pruners.HyperbandPruner,
        }
        self.study.pruner = pruners[space.file.pruner]()
        self.objective = objective

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within it no other process draws a setting.

        Raises:
            StoreError: another one does for too long.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.store / f".{self.space.name}.sweep.lock", WAIT_SECONDS))
            except LockHeld as error:
                raise StoreError(
                    f"{self.path}: {error} for {WAIT_SECONDS:.0f} s; end that process, then try again"
                ) from None
            yield

    def draw(self, trials: int, worker: str) -> tuple[optuna.Trial, dict[str, Any]] | None:
        """A setting to try: one that a process left by its end, else a new one; None where there are enough."""
        import optuna

        with self.alone():
            found = self.study.get_trials(deepcopy=False)
            running = [x for x in found if x.state == optuna.trial.TrialState.RUNNING]
            left = [x for x in running if is_held(self.store / str(x.user_attrs.get(WORKER))) is False]
            begun = [x for x in found if x.state != optuna.trial.TrialState.WAITING]
            if not left and len(begun) >= trials:
                return None
            seed = (self.space.file.train.seed + len(begun)) % 2**32
            self.study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
            trial = optuna.Trial(self.study, left[0]._trial_id) if left else self.study.ask()
            trial.set_user_attr(WORKER, worker)
            return trial, {name: self._suggested(trial, name) for name in self.space.dimensions}

    def _suggested(self, trial: optuna.Trial, name: str) -> Any:
        x = self.space.dimensions[name]
        if x.choices is not None:
            codes = {_code(value): value for value in x.choices}
            return codes[trial.suggest_categorical(name, list(codes))]
        assert x.low is not None and x.high is not None
        if self.space.types[name] is int:
            return trial.suggest_int(name, int(x.low), int(x.high), step=int(x.step or 1), log=x.log)
        return trial.suggest_float(name, x.low, x.high, step=x.step, log=x.log)

    def spread(self) -> SeedSpread:
        """How results vary over seeds, of all settings together."""
        seeds = [x.user_attrs.get(SEEDS, []) for x in self.study.get_trials(deepcopy=False)]
        return pooled([[s["value"] for s in x] for x in seeds], [[s["error"] for s in x] for x in seeds])

    def leader(self) -> list[float] | None:
        """The results of the best setting that ended; None where none has."""
        import optuna

        ended = self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        best = max(ended, key=lambda x: self.sign * (x.value or 0.0), default=None)
        return None if best is None else [s["value"] for s in best.user_attrs[SEEDS]]


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path}: is damaged, or no journal of a sweep ({why}); put it back from a copy, or remove it to begin again:"
        f" runs stay"
    )


def _mend(path: Path, lock: Any) -> None:
    """Cuts off the half line that a killed process left at the end of a journal.

    Raises:
        StoreError: the journal cannot be written, or is none.
    """
    try:
        lock.acquire()
        try:
            if path.exists():
                with path.open("r+b") as file:
                    whole, _, half = file.read().rpartition(b"\n")
                    if whole and not whole.startswith(b"{"):  # Optuna would write behind it
                        raise _damaged(path, "its first line is no JSON")
                    if half and whole:
                        file.truncate(len(whole) + 1)
        finally:
            lock.release()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}; see to its rights, or pass another --store") from None


def _code(value: Any) -> Any:
    """A choice as Optuna takes it: lists and tables as text."""
    return value if isinstance(value, bool | int | float | str) else toml(value)


def decoded(space: SweepSpace, name: str, code: Any) -> Any:
    """The inverse of `_code`."""
    choices = space.dimensions[name].choices or []
    return next((value for value in choices if _code(value) == code), code)
