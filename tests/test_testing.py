"""`league.testing`: sound games, bots and networks pass; each thing broken on purpose is found, and where it is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import league
from league.envs import registry
from league.envs.classic import matrix
from league.envs.classic.matrix import MatrixBatch
from league.envs.contract import games as game_checks
from league.errors import LeagueError, UsageError
from league.policies.actor_critic import ActorCritic, Architecture
from league.testing import ContractError, check_bot, check_game, check_parts, check_policy
from league.types import GameSpec
from tests.helpers import guessing
from tests.helpers.commands import call, need_refusal
from tests.helpers.matches import Auction, Grid, Hands, Keys
from tests.helpers.refusals import refusal

OPTIONS = {"rounds": 5}
Batch = Callable[[Any], None]


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    games = {"grid": Grid, "keyboard": Keys, "hands": Hands, "auction": Auction}
    monkeypatch.setattr(registry, "_games", {**registry._games, **{n: m.as_game() for n, m in games.items()}})


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("game", ["matrix", "kuhn", "grid", "keyboard", "hands", "auction"])
def test_sound_games_pass(game: str, quick: bool) -> None:
    """In turns or at once, in arrays or in plain Python, with every kind of action; so do their native bots."""
    check_game(game, OPTIONS if game == "matrix" else {}, quick=quick)
    for bot in registry.spec(game, {}).bots if quick else ():
        check_bot(game, bot)


def registered(name: str, batch: type[MatrixBatch] | None = None, /, **spec: Any) -> Any:
    """The matrix game by that name, with a batch of another class or something else in its spec."""

    def own_spec(options: Any) -> GameSpec:
        return replace(matrix.spec(options), **{"name": name, **spec})

    def make(rows: int, threads: int, options: Any) -> MatrixBatch:
        made = (batch or MatrixBatch)(rows, options)
        made.spec = own_spec(options) if batch else made.spec
        return made

    return SimpleNamespace(Options=matrix.Options, spec=own_spec, make=make)


def changed(after_step: Batch | None = None, of_views: Batch | None = None, at_start: Batch | None = None) -> Any:
    """The matrix game, in which something happens after every step, to views as they are written, or to its arrays."""

    class Broken(MatrixBatch):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            if at_start is not None:
                at_start(self)

        def step(self) -> None:
            if at_start is None:
                super().step()
            if after_step is not None:
                after_step(self)

        def show(self) -> None:
            super().show()
            if of_views is not None:
                of_views(self.obs)

    return Broken


class RefusesIllegal(MatrixBatch):
    """Forbids what was played last, and refuses it."""

    has_mask = True
    mask: Any

    def show(self) -> None:
        super().show()
        self.mask[:] = self.obs[:, :, :3] == 0

    def step(self) -> None:
        if not self.spec.action.is_legal(self.actions, self.mask)[self.controllers < 0].all():
            raise RuntimeError("that was played last time")
        super().step()


class NeverEnds(MatrixBatch):
    def step(self) -> None:
        self.match["round"] = self.match["first"] = 0
        super().step()


class RefusesStates(MatrixBatch):
    def set_state(self, state: bytes) -> None:
        raise ValueError("too old")


class NoState(MatrixBatch):
    get_state = None  # type: ignore[assignment]


class LeakyBots(MatrixBatch):
    """The bot `constant` plays what its neighbour in the batch did."""

    def _choose(self) -> Any:
        chosen = super()._choose()
        native = self.controllers >= 0
        chosen[native] = np.roll(self.match["last"][:, ::-1], 1, axis=0)[native].clip(0)
        return chosen


def flip_winner(batch: Any) -> None:
    winner = batch.result["winner"]
    batch.result["winner"] = np.where(winner >= 0, 1 - winner, winner)


def put(where: str, place: Any, value: float) -> Batch:
    """Writes a number into an array."""
    return lambda batch: getattr(batch, where).__setitem__(place, value)


def swap_halves(out: Any) -> None:
    out[:] = np.roll(out, out.shape[-1] // 2, axis=-1)


def show_one_view(out: Any) -> None:
    out[:, 1] = out[:, 0]


def remake(name: str, how: Callable[[Any], Any] = np.copy) -> Batch:
    """Makes an array again."""
    return lambda batch: setattr(batch, name, how(getattr(batch, name)))


def pay_both(batch: Any) -> None:
    batch.reward_terms[:, :, 1] = np.abs(batch.reward_terms[:, :, 1])


BROKEN: dict[str, tuple[Any, bool, str]] = {
    "winner": (changed(flip_winner), False, r"row \d, step 5 of its match 1: the winner is seat"),
    "both_paid": (changed(pay_both), False, r"both seats are paid"),
    "ticks": (changed(lambda batch: batch.result["ticks"].__iadd__(1)), False, r"result says 6 ticks"),
    "one_view": (changed(of_views=show_one_view), False, r"both seats are shown one view"),
    "own_half": (changed(of_views=swap_halves), False, r"opponent_slice \(4, 8\) shows the seat itself"),
    "never_ends": (NeverEnds, False, r"no match ended in 500 steps .*env.max_episode_steps of Gymnasium"),
    "no_restore": (RefusesStates, True, r"set_state\(\) refuses what get_state\(\) gave"),
    "refuses": (RefusesIllegal, False, r"refuses an action that the mask forbids"),
    "moves": (changed(remake("obs")), True, r"obs moved in step\(\)"),
    "moves_end": (changed(remake("terminated")), True, r"terminated moved in step\(\)"),
    "nan": (changed(put("obs", (1, 1, 3), np.nan)), True, r"row 1, seat 1, step 1 of its match 1: obs\[3\] is nan"),
    "range": (changed(put("obs", (1, 1, 2), -9)), True, r"obs\[2\] is -9.0, which leaves obs_range"),
    "stale": (changed(put("obs", (1, 1, 2), 0.5)), True, r"row 1, seat 1: obs\[2\] is 0.5, but .* set to its state"),
    "lacks": (NoState, True, r"has no method get_state\(\)"),
    "float64": (changed(at_start=remake("obs", lambda x: x.astype(np.float64))), True, r"obs has dtype float64"),
    "fortran": (changed(at_start=remake("obs", np.asfortranarray)), True, r"obs is not C-contiguous"),
    "shape": (changed(at_start=remake("obs", lambda x: x[:, :, :-1].copy())), True, r"obs has shape \(., 2, 7\)"),
    "a_list": (changed(at_start=remake("terminated", list)), True, r"terminated is of type list"),
    "misnamed": (registered("misnamed", name="matrixx"), True, r"game misnamed: its spec says name='matrixx'"),
    "no_spec": (SimpleNamespace(Options=matrix.Options), True, r"no attribute 'spec'"),
    "no_make": (SimpleNamespace(Options=matrix.Options, spec=registered("no_make").spec), True, r"'make'"),
}
"""Name -> what is broken, whether the quick form finds it too, what is said."""


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; before training where a few steps show it, by the deep form always."""
    what, is_quick, rule = BROKEN[name]
    game = registered(name, what) if isinstance(what, type) else what
    monkeypatch.setitem(registry._games, name, game)  # the door would refuse some of them
    monkeypatch.setattr(game_checks, "NEVER", 500)
    for quick in (True, False) if is_quick else (False,):
        with pytest.raises(LeagueError, match=rule) as caught:
            check_game(name, OPTIONS, quick=quick)
        assert "\n" not in str(caught.value)


def test_a_game_of_long_matches_is_played_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row ends three matches in the steps that are played, as where an environment is cut after 10,000."""
    monkeypatch.setattr(game_checks, "NEVER", 11)
    checked = check_game("matrix", OPTIONS)
    assert checked is not None and (checked.longest, checked.steps) == (5, 42)


def test_training_checks_the_game_first(tmp_path: Path) -> None:
    """Before anything is written: arrays that move, a name unlike the spec's, an encoder with nothing to read."""
    blind = type("Keyboard", (Keys,), {"opponent_slice": (0, 0)})
    for name, game, rule in (
        ("matrix", registered("matrix", changed(remake("obs"))), "obs moved"),
        ("stones", matrix, "name='matrix'"),
        ("keyboard", cast(Any, blind).as_game(), "agent.opponent_encoder=true"),
    ):
        registry._games[name] = cast(Any, game)
        sets = ["rewards.win=1.0", "agent.opponent_encoder=true"]
        assert rule in refusal(lambda: league.train("smoke", env=name, overrides=sets, store=tmp_path / "s"))  # noqa: B023
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_it_found(tmp_path: Path) -> None:
    """A sound game in two lines or one document, by its name, address or class; a broken one is one line."""
    game = registered("moves")
    game.make = matrix.make
    registry.register("moves", game)
    short = ["check", "matrix", "--set", "env.rounds=3"]
    shown = call(*short, "--quiet")
    assert shown.code == 0 and not shown.err and shown.out.startswith("matrix: keeps the contract, in runs of ")
    assert shown.out.splitlines()[1].endswith(": constant, random, biased")
    assert call(*short, "--json").json["longest"] == 3
    need_refusal(call("check", "moves"), 1, "game moves")
    need_refusal(call("check", "matrix", "--set", "env.round=3"), 2, "env.round=3")
    need_refusal(
        call("check", "matrix", "--set", "rewards.wins=1"), 2, "rewards.wins=1: matrix has no such reward term"
    )
    assert "no such reward term" in refusal(lambda: check_parts("matrix", overrides=["rewards.wins=1"]))
    need_refusal(call("check", "matrixx"), 2, "`matrix`")
    rules = Path(league.__file__).resolve().parents[1] / "examples" / "rps.py"
    (tmp_path / "game.py").write_text(rules.read_text())
    assert call("check", "game.py", "--quiet", cwd=tmp_path).out.startswith("rps: keeps the contract")
    found = check_game(Keys)
    assert found is not None and found.spec.name == "keyboard"


CALLS: list[int] = []


def remembers(observation: Any, legal: Any, rng: np.random.Generator) -> Any:
    CALLS.append(1)
    return legal[(len(CALLS) // 7) % len(legal)]


@pytest.mark.parametrize(
    ("bot", "rule"),
    [
        (remembers, r"bot remembers of auction, seat 0: the match of seed \d+ is another when it is played again"),
        (lambda observation, legal, rng: legal[np.random.randint(len(legal))], "draw all chance from rng"),
        (lambda observation, legal, rng: 3, "bot <lambda> answered 3"),
    ],
)
def test_a_bot_that_leaks_or_cheats_is_named(bot: Any, rule: str) -> None:
    """State that is kept between calls, chance from elsewhere, what is not legal; a native one that sees other rows."""
    with pytest.raises(LeagueError, match=rule):
        check_bot("auction", bot)
    check_bot("auction", lambda observation, legal, rng: rng.choice(legal))
    with pytest.raises(UsageError, match="did you mean `random`"):
        check_bot("auction", "randon")
    registry.register("leaky", registered("leaky", LeakyBots))
    with pytest.raises(ContractError, match="another when nothing else is played beside it"):
        check_bot("leaky", "constant", {"rounds": 8})


def network(spec: GameSpec, **changes: Any) -> ActorCritic:
    """A small network for a game."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 16, "encoder_feedforward": 16}
    sizes |= {"history_tokens": 4, "latents": 2, "observation_width": 8, "lstm_size": 8, "head_sizes": (8,)}
    sizes |= {"obs_size": spec.obs_size, "opponent_slice": spec.opponent_slice, "action": spec.action}
    return ActorCritic(Architecture(**{"opponent_encoder": True, **sizes, **changes}))


@pytest.mark.parametrize("kind", [*guessing.KINDS, "grid", "keyboard"])
def test_our_networks_pass_with_every_space(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts, keys, real numbers, mixtures and legal tuples; with an encoder and without."""
    guessing.register(monkeypatch)
    spec = registry.spec(kind, {}) if kind in ("grid", "keyboard") else registry.spec("guessing", {"kind": kind})
    for encoder in (True, False) if kind in ("grid", "keyboard") else (True,):
        policy = network(spec, observation=spec.observation, opponent_encoder=encoder)
        check_policy(policy, spec)
        assert all(parameter.grad is None for parameter in policy.parameters())


@pytest.mark.parametrize(
    ("kind", "number", "rule"),
    [
        ("box", 10.5, "outside 0 to 10 in part 0"),
        ("tuples", 2, "forbids"),
        ("mixture", 1.5, "outside 0 to 2 in part 0"),
    ],
)
def test_a_network_that_leaves_its_space_is_named(
    kind: str, number: float, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number beyond a bound, a choice that is none, a tuple that is not listed."""
    guessing.register(monkeypatch)
    spec = registry.spec("guessing", {"kind": kind})
    policy = network(spec, observation=spec.observation)
    step = policy.step

    def astray(*args: Any, **how: Any) -> Any:
        action, log_prob, value = step(*args, **how)
        action[0, 0] = number
        return action, log_prob, value

    monkeypatch.setattr(policy, "step", astray)
    with pytest.raises(ContractError, match=rule):
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
    "unused": "spare.weight",
    "detached": "critic.weight",
    "illegal": r"plays \[.*\] in row \d, step \d+, which its mask forbids",
    "global": "draws other actions from the same generator in step 0",
    "shape": r"gives value of shape \(4, 1\), not \(4,\)",
    "types": "gives action of type torch.int32, not torch.int64",
    "value": r"changes the state in value\(\)",
    "other_value": r"step 0: value\(\) is not the value that step\(\) gives",
    "carries": r"sequence\(\) is not that of step\(\) at step \d+, after a match began",
    "never_clears": r"sequence\(\) is not that of step\(\)|remembers something of a row after clear",
    "clears_all": r"sequence\(\) is not that of step\(\)|forgets rows that clear",
    "rows": r"changes the state of rows that step\(rows=...\) was not given",
    "joins": r"loses what rows remember in select\(\) and join\(\)",
    "loads": r"loses what rows remember in tensors\(\) and load\(\)",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_network_is_named(fault: str) -> None:
    """A sound one of somebody else's passes; each fault has its line, and so has a method that is not there."""
    spec = registry.spec("grid", {})
    policy: Any = Counting(spec, fault)
    if not fault:
        check_policy(policy, spec)
        policy = nn.Linear(2, 2)
    rule = FAULTS[fault] or r"policy Linear has no method initial_state\(\)"
    with pytest.raises(ContractError, match=rule) as caught:
        check_policy(policy, spec)
    assert "\n" not in str(caught.value) and "policy " in str(caught.value)
