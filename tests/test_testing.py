"""`league.testing`: sound games, bots and networks pass; each thing broken on purpose is found, and where it is."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import league
from league.cli import main
from league.envs import registry
from league.envs.classic import matrix
from league.envs.classic.matrix import MatrixBatch
from league.envs.contract import games as game_checks
from league.errors import ConfigError, LeagueError, UsageError
from league.policies.actor_critic import ActorCritic, Architecture
from league.testing import ContractError, check_bot, check_game, check_policy
from league.types import GameSpec
from tests.helpers import guessing
from tests.helpers.matches import Auction, Grid, Hands, Keys

OPTIONS = {"rounds": 5}


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    games = {"grid": Grid, "keyboard": Keys, "hands": Hands, "auction": Auction}
    monkeypatch.setattr(registry, "_games", {**registry._games, **{n: m.as_game() for n, m in games.items()}})
    yield


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("game", ["matrix", "kuhn", "grid", "keyboard", "hands", "auction"])
def test_sound_games_pass(game: str, quick: bool) -> None:
    """In turns or at once, in arrays or in plain Python, with every kind of action."""
    check_game(game, {"rounds": 5} if game == "matrix" else {}, quick=quick)


def broken_spec(**changes: Any) -> Callable[[Any], GameSpec]:
    """A spec of the matrix game with something else in it, or in its action."""

    def spec(options: Any) -> GameSpec:
        own = matrix.spec(options)
        action = {key[7:]: value for key, value in changes.items() if key.startswith("action_")}
        rest = {key: value for key, value in changes.items() if not key.startswith("action_")}
        return replace(own, action=replace(own.action, **action), **rest)

    return spec


def after_step(change: Callable[[Any], None]) -> type[MatrixBatch]:
    """The matrix game, in which something happens after every step."""

    class Broken(MatrixBatch):
        def step(self) -> None:
            super().step()
            change(self)

    return Broken


def with_views(change: Callable[[Any], None]) -> type[MatrixBatch]:
    """The matrix game, in which something happens to views whenever they are written."""

    class Broken(MatrixBatch):
        def _observe(self, out: Any) -> None:
            super()._observe(out)
            change(out)

    return Broken


def setting(name: str, value: Callable[[Any], Any]) -> type[MatrixBatch]:
    """The matrix game with another array."""

    class Broken(MatrixBatch):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            setattr(self, name, value(getattr(self, name)))

        def step(self) -> None:
            pass

    return Broken


class RefusesIllegal(MatrixBatch):
    """Forbids what was played last, and refuses it."""

    mask: Any

    def __init__(self, rows: int, options: Any) -> None:
        self.mask = np.ones((rows, 2, 3), np.bool_)
        super().__init__(rows, options)

    def _observe(self, out: Any) -> None:
        super()._observe(out)
        self.mask[:] = out[:, :, :3] == 0

    def step(self) -> None:
        if not self.spec.action.is_legal(self.actions, self.mask)[self.controllers < 0].all():
            raise RuntimeError("that was played last time")
        super().step()


class NeverEnds(MatrixBatch):
    def step(self) -> None:
        self._match["round"] = self._match["first"] = 0
        super().step()


class RefusesStates(MatrixBatch):
    def set_state(self, state: bytes) -> None:
        raise ValueError("too old")


class NoState(MatrixBatch):
    get_state = None  # type: ignore[assignment]


class OneView(MatrixBatch):
    def _observe(self, out: Any) -> None:
        super()._observe(out)
        out[:, 1] = out[:, 0]


def flip_winner(batch: Any) -> None:
    winner = batch.result["winner"]
    batch.result["winner"] = np.where(winner >= 0, 1 - winner, winner)


def pay_both(batch: Any) -> None:
    batch.reward_terms[:, :, 1] = np.abs(batch.reward_terms[:, :, 1])


def count_ticks_on(batch: Any) -> None:
    batch.result["ticks"] += 1


def spoil(column: int, value: float) -> Callable[[Any], None]:
    def change(batch: Any) -> None:
        batch.obs[1, 1, column] = value

    return change


def swap_halves(out: Any) -> None:
    out[:] = np.roll(out, out.shape[-1] // 2, axis=-1)


def move(name: str) -> Callable[[Any], None]:
    return lambda batch: setattr(batch, name, getattr(batch, name).copy())


BROKEN: list[tuple[str, Any, bool, str]] = [
    ("winner", after_step(flip_winner), False, r"row \d, step 5 of its match 1: the winner is seat ., but reward"),
    ("both_paid", after_step(pay_both), False, r"both seats are paid for the win of seat"),
    ("ticks", after_step(count_ticks_on), False, r"result says 6 ticks of the match, which had 5 steps of 1"),
    ("one_view", OneView, False, r"both seats are shown one view in every step"),
    ("own_half", with_views(swap_halves), False, r"opponent_slice \(4, 8\) shows the seat itself: obs\[4\] of seat 0"),
    ("never_ends", NeverEnds, False, r"no match ended in 500 steps of random play"),
    ("no_restore", RefusesStates, True, r"set_state\(\) refuses what get_state\(\) gave: too old"),
    ("refuses", RefusesIllegal, False, r"refuses an action that the mask forbids, .*RuntimeError: that was"),
    ("moves", after_step(move("obs")), True, r"obs moved in step\(\): self.obs = ... makes a new array"),
    ("moves_end", after_step(move("terminated")), True, r"terminated moved in step\(\)"),
    ("nan", after_step(spoil(3, np.nan)), True, r"row 1, seat 1, step 1 of its match 1: obs\[3\] is nan, not finite"),
    ("range", after_step(spoil(2, -9)), True, r"row 1, seat 1, step 1 .*: obs\[2\] is -9.0, which leaves obs_range"),
    ("stale", after_step(spoil(2, 0.5)), True, r"row 1, seat 1: obs\[2\] is 0.5, but .* set to its state"),
    ("lacks", NoState, True, r"has no method get_state\(\)"),
    ("float64", setting("obs", lambda x: x.astype(np.float64)), True, r"obs has dtype float64, not float32"),
    ("fortran", setting("obs", np.asfortranarray), True, r"obs is not C-contiguous"),
    ("wrong_shape", setting("obs", lambda x: x[:, :, :-1].copy()), True, r"obs has shape \(., 2, 7\), not \(., 2, 8\)"),
    ("a_list", setting("terminated", list), True, r"terminated is of type list, not a numpy array"),
    ("misnamed", broken_spec(name="matrixx"), True, r"game misnamed: its spec says name='matrixx'"),
    ("no_spec", SimpleNamespace(Options=matrix.Options), True, r"no_spec: .* has no attribute 'spec'"),
    ("no_make", SimpleNamespace(Options=matrix.Options, spec=broken_spec(name="no_make")), True, r"'make'"),
]  # fmt: skip
"""Name, what is broken, whether the quick form finds it too, what is said."""


@pytest.mark.parametrize(("name", "what", "is_quick", "rule"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_what_is_broken_is_named(
    name: str, what: Any, is_quick: bool, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line; before training where a few steps show it, by the deep form always."""
    if isinstance(what, type):
        made = cast(type[MatrixBatch], what)

        def make(rows: int, threads: int, options: Any) -> MatrixBatch:
            batch = made(rows, options)
            batch.spec = replace(batch.spec, name=name)
            return batch

        what = SimpleNamespace(Options=matrix.Options, spec=broken_spec(name=name), make=make)
    elif callable(what):
        spec = what if name == "misnamed" else lambda options, own=what: replace(own(options), name=name)
        what = SimpleNamespace(Options=matrix.Options, spec=spec, make=matrix.make)
    monkeypatch.setitem(registry._games, name, what)  # the door would refuse some of them
    monkeypatch.setattr(game_checks, "NEVER", 500)
    for quick in (True, False) if is_quick else (False,):
        with pytest.raises(LeagueError, match=rule) as caught:
            check_game(name, OPTIONS, quick=quick)
        assert "\n" not in str(caught.value)


def test_training_checks_the_game_first(tmp_path: Path) -> None:
    """Before anything is written: arrays that move, a name unlike the spec's, an encoder with nothing to read."""
    moves, blind = after_step(move("obs")), type("Keyboard", (Keys,), {"opponent_slice": (0, 0)})
    moving = SimpleNamespace(
        Options=matrix.Options, spec=matrix.spec, make=lambda rows, threads, options: moves(rows, options)
    )
    for name, game, rule in (
        ("matrix", moving, "obs moved"),
        ("stones", matrix, "game stones: its spec says name='matrix'"),
        ("keyboard", cast(Any, blind).as_game(), "agent.opponent_encoder=true: keyboard shows nothing"),
    ):
        registry._games[name] = cast(Any, game)
        with pytest.raises(LeagueError, match=rule):
            sets = ["rewards.win=1.0", "agent.opponent_encoder=true"]
            league.train("smoke", env=name, overrides=sets, store=tmp_path / "league.duckdb")
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_it_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A sound game in two lines or one document; a broken one is one line on stderr and exit code 1."""
    spec = broken_spec(name="moves")
    registry.register("moves", cast(Any, SimpleNamespace(Options=matrix.Options, spec=spec, make=matrix.make)))
    said = []
    short = ["matrix", "--set", "env.rounds=3"]
    for arguments in ([*short, "--quiet"], [*short, "--json"], ["moves"], ["matrix", "--set", "env.round=3"]):
        monkeypatch.setattr(sys, "argv", ["league", "check", *arguments])
        code = 0
        try:
            main()
        except SystemExit as ending:
            code = int(ending.code or 0)
        said.append((code, *capsys.readouterr()))
    (code, out, err), (_, document, _), broken, unknown = said
    assert code == 0 and not err and out.splitlines()[0].startswith("matrix: keeps the contract, in runs of ")
    assert out.splitlines()[1].endswith(": constant, random, biased") and json.loads(document)["longest"] == 3
    assert broken == (1, "", "error: game moves: the batch's spec is not the one that spec(options) gives\n")
    assert unknown[0] == 2 and "env.round=3 is not an option" in unknown[2]


def test_a_game_that_is_not_there_is_one_line() -> None:
    """Neither the game nor an option."""
    with pytest.raises(ConfigError, match="did you mean `matrix`"):
        check_game("matrixx")
    with pytest.raises(ConfigError, match=r"env.round=3 is not an option"):
        check_game("matrix", {"round": 3})


@pytest.mark.parametrize("game", ["matrix", "kuhn", "keyboard", "hands", "auction"])
def test_sound_bots_pass(game: str) -> None:
    """Every native bot of games in arrays and in plain Python, in both seats."""
    for bot in registry.spec(game, {}).bots:
        check_bot(game, bot)


CALLS: list[int] = []


def remembers(observation: Any, legal: Any, rng: np.random.Generator) -> Any:
    CALLS.append(1)
    return legal[(len(CALLS) // 7) % len(legal)]


def global_chance(observation: Any, legal: Any, rng: np.random.Generator) -> Any:
    return legal[np.random.randint(len(legal))]


def own_chance(observation: Any, legal: Any, rng: np.random.Generator) -> Any:
    return rng.choice(legal)


@pytest.mark.parametrize(
    ("bot", "rule"),
    [
        (remembers, r"bot remembers of auction, seat 0: the match of seed \d+ is another when it is played again"),
        (global_chance, "bot global_chance .* draw all chance from rng"),
        (lambda observation, legal, rng: 3, "bot <lambda> answered 3, where"),
    ],
)
def test_a_bot_that_leaks_or_cheats_is_named(bot: Any, rule: str) -> None:
    """State that is kept between calls, chance from elsewhere, and what is not legal."""
    with pytest.raises(LeagueError, match=rule):
        check_bot("auction", bot)
    check_bot("auction", own_chance)
    with pytest.raises(UsageError, match="did you mean `random`"):
        check_bot("auction", "randon")


class LeakyBots(MatrixBatch):
    """The bot `constant` plays what its neighbour in the batch did."""

    def _choose(self) -> Any:
        chosen = super()._choose()
        native = self.controllers >= 0
        chosen[native] = np.roll(self._match["last"][:, ::-1], 1, axis=0)[native].clip(0)
        return chosen


def test_a_native_bot_that_looks_at_other_rows_is_named() -> None:
    """A match of a bot hangs on nothing that is played beside it."""
    game = SimpleNamespace(
        Options=matrix.Options,
        spec=broken_spec(name="leaky"),
        make=lambda rows, threads, options: LeakyBots(rows, options),
    )
    registry.register("leaky", cast(Any, game))
    with pytest.raises(ContractError, match="another when nothing else is played beside it"):
        check_bot("leaky", "constant", {"rounds": 8})


def network(spec: GameSpec, **changes: Any) -> ActorCritic:
    """A small network for a game."""
    torch.manual_seed(0)
    architecture = Architecture(
        obs_size=spec.obs_size, opponent_slice=spec.opponent_slice, action=spec.action, opponent_encoder=True,
        encoder_layers=1, encoder_heads=2, encoder_width=16, encoder_feedforward=16, history_tokens=4, latents=2,
        observation_width=8, lstm_size=8, head_sizes=(8,),
    )  # fmt: skip
    return ActorCritic(replace(architecture, **changes))


@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize("game", ["grid", "keyboard"])
def test_our_networks_pass(game: str, encoder: bool) -> None:
    """With and without an encoder, with parts and with keys."""
    spec = registry.spec(game, {})
    policy = network(spec, opponent_encoder=encoder)
    check_policy(policy, spec)
    assert all(parameter.grad is None for parameter in policy.parameters())


@pytest.mark.parametrize("kind", guessing.KINDS)
def test_our_networks_pass_with_every_space(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With parts of the observation, real numbers, mixtures and legal tuples."""
    guessing.register(monkeypatch)
    spec = registry.spec("guessing", {"kind": kind})
    check_policy(network(spec, observation=spec.observation), spec)


@pytest.mark.parametrize("kind", ["box", "tuples", "mixture"])
def test_a_network_that_leaves_its_space_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number beyond a bound, a choice that is none, a tuple that is not listed."""
    guessing.register(monkeypatch)
    spec = registry.spec("guessing", {"kind": kind})
    policy = network(spec, observation=spec.observation)
    step = policy.step

    def astray(*args: Any, **how: Any) -> Any:
        action, log_prob, value = step(*args, **how)
        action[0, 0] = {"box": 10.5, "tuples": 2, "mixture": 1.5}[kind]
        return action, log_prob, value

    monkeypatch.setattr(policy, "step", astray)
    rule = {"box": "outside 0 to 10 in part 0", "tuples": "its mask forbids", "mixture": "outside 0 to 2 in part 0"}
    with pytest.raises(ContractError, match=rule[kind]):
        check_policy(policy, spec)


class Counting(nn.Module):
    """The smallest policy with a memory: it counts its decisions. Faults are switched on by name."""

    def __init__(self, spec: GameSpec, fault: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.action, self.fault = spec.action, fault
        self.actor = nn.Linear(spec.obs_size + 1, spec.action.num_logits)
        self.critic = nn.Linear(spec.obs_size + 1, 1)
        if fault == "unused":
            self.spare = nn.Linear(2, 2)

    def initial_state(self, num_rows: int) -> Any:
        return CountState(torch.zeros(num_rows), self.fault)

    def _heads(self, obs: Tensor, count: Tensor, mask: Tensor) -> tuple[Any, Tensor]:
        seen = torch.cat([obs, count[..., None] / 10], -1)
        logits = self.actor(seen)
        if self.fault != "illegal":
            logits = logits.masked_fill(~mask, -1e9)
        parts = [torch.distributions.Categorical(logits=x) for x in logits.split(list(self.action.choices), -1)]
        return parts, self.critic(seen)[..., 0]

    def step(
        self, obs: Tensor, state: Any, *, mask: Any, rows: Any = None, generator: Any = None, greedy: Any = 0
    ) -> Any:
        which = torch.arange(len(state.count)) if rows is None else rows
        parts, value = self._heads(obs, state.count[which], mask)
        source = None if self.fault == "global" else generator
        drawn = [
            p.logits.argmax(-1) if greedy else torch.multinomial(p.probs, 1, generator=source)[:, 0] for p in parts
        ]
        action = torch.stack(drawn, -1)
        log_prob = sum(p.log_prob(a) for p, a in zip(parts, drawn, strict=True))
        state.count[slice(None) if self.fault == "rows" else which] += 1
        if self.fault == "types":
            action = action.int()
        return action, log_prob, value[:, None] if self.fault == "shape" else value

    def value(self, obs: Tensor, state: Any, *, rows: Any = None) -> Tensor:
        which = torch.arange(len(state.count)) if rows is None else rows
        found = self._heads(obs, state.count[which], torch.ones(len(obs), self.action.mask_size, dtype=torch.bool))[1]
        if self.fault == "value":
            state.count += 1
        return found + (1 if self.fault == "other_value" else 0)

    def watch(self, obs: Tensor, state: Any, *, rows: Any = None) -> None:
        """Nothing is made of it."""

    def sequence(self, obs: Tensor, action: Tensor, state: Any, is_first: Tensor, mask: Any = None) -> Any:
        count, counts = state.count.clone(), []
        for t in range(obs.shape[1]):
            if self.fault != "carries":
                count = torch.where(is_first[:, t], 0, count)
            counts.append(count)
            count = count + 1
        parts, value = self._heads(obs, torch.stack(counts, 1), mask)
        log_prob = sum(p.log_prob(action[..., i]) for i, p in enumerate(parts))
        return log_prob, sum(p.entropy() for p in parts), value.detach() if self.fault == "detached" else value


class CountState:
    """How often each row has decided."""

    def __init__(self, count: Tensor, fault: str) -> None:
        self.count, self.fault = count, fault

    def clear(self, rows: Tensor) -> None:
        if self.fault == "clears_all":
            self.count[:] = 0
        elif self.fault != "never_clears":
            self.count[rows] = 0

    def select(self, rows: Any) -> Any:
        return CountState(self.count.clone() if rows is None else self.count[rows], self.fault)

    def tensors(self) -> dict[str, Tensor]:
        return {"count": self.count}

    def join(self, others: Any) -> Any:
        counts = [self.count, *(other.count for other in others)]
        return CountState(torch.cat(counts) * (0 if self.fault == "joins" else 1), self.fault)

    def load(self, tensors: dict[str, Tensor]) -> None:
        if self.fault != "loads":
            self.count.copy_(tensors["count"])


FAULTS = {
    "": "",
    "unused": "no gradient reaches, or none that is finite: spare.weight",
    "detached": "no gradient reaches, or none that is finite: critic.weight",
    "illegal": r"plays \[.*\] in row \d, step \d+, which its mask forbids",
    "global": "draws other actions from the same generator in step 0",
    "shape": r"gives value of shape \(4, 1\), not \(4,\)",
    "types": "gives action of type torch.int32, not torch.int64",
    "value": "changes the state in value()",
    "other_value": r"step 0: value\(\) is not the value that step\(\) gives",
    "carries": r"sequence\(\) is not that of step\(\) at step \d+, after a match began",
    "never_clears": r"sequence\(\) is not that of step\(\)|remembers something of a row after clear",
    "clears_all": r"sequence\(\) is not that of step\(\)|forgets rows that clear",
    "rows": r"changes the state of rows that step\(rows=...\) was not given",
    "joins": r"loses what rows remember in select\(\) and join\(\)",
    "loads": r"loses what rows remember in tensors\(\) and load\(\)",
}


@pytest.mark.parametrize(("fault", "rule"), FAULTS.items(), ids=[name or "sound" for name in FAULTS])
def test_what_is_wrong_with_a_network_is_named(fault: str, rule: str) -> None:
    """A sound one of somebody else's passes; each fault has its line."""
    spec = registry.spec("grid", {})
    policy = Counting(spec, fault)
    if not fault:
        check_policy(cast(Any, policy), spec)
        return
    with pytest.raises(ContractError, match=rule) as caught:
        check_policy(cast(Any, policy), spec)
    assert "\n" not in str(caught.value) and "policy Counting" in str(caught.value)


def test_a_network_without_its_methods_is_named() -> None:
    """Before anything is played."""
    with pytest.raises(ContractError, match=r"policy Linear has no method initial_state\(\)"):
        check_policy(cast(Any, nn.Linear(2, 2)), registry.spec("grid", {}))


def test_games_are_checked_by_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """`league check game.py`, and a class itself."""
    rules = Path(league.__file__).resolve().parents[1] / "examples" / "rps.py"
    (tmp_path / "game.py").write_text(rules.read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["league", "check", "game.py", "--quiet"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert not ending.value.code and capsys.readouterr().out.startswith("rps: keeps the contract")
    found = check_game(Keys)
    assert found is not None and found.spec.name == "keyboard"
