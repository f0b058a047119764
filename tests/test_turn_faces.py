"""Games in turns as Gymnasium and PettingZoo environments: a step is one decision of the learner's own seat."""

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env, data_equivalence
from pettingzoo.test import api_test, seed_test

import league.gym
from league.arena.duel import Duel
from league.envs import Match, registry
from league.errors import UsageError
from league.policies.actor_critic import ActorCritic, Architecture
from league.snapshots import Agent
from league.zoo import ParallelMatch, TurnMatch
from tests.helpers.matches import Auction, Grid, Hands, Keys, Waltz

MATCHES: dict[str, type[Match]] = {"hands": Hands, "auction": Auction, "keyboard": Keys, "grid": Grid, "waltz": Waltz}
WIN = {"rewards": {"win": 1.0}}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The small games, known to the registry and to Gymnasium."""
    monkeypatch.setattr(registry, "_games", {**registry._games, **{n: m.as_game() for n, m in MATCHES.items()}})
    for name in MATCHES:
        league.gym.register(name)
    yield
    for name in MATCHES:
        del gymnasium.registry[f"league/{name.capitalize()}-v0"]


def make(game: str, **arguments: Any) -> Any:
    """A single environment without Gymnasium's wrappers."""
    return gymnasium.make(f"league/{game.capitalize()}-v0", **{**WIN, "opponent": "random", **arguments}).unwrapped


def first_legal(obs: Any, mask: Any) -> Any:
    """The first action of one observation or a stack: in the small games' masks a tuple's numbers."""
    return np.zeros((*obs.shape[:-1], 1), np.int64) if mask is None else np.maximum(mask[..., :2], 0)


@pytest.mark.parametrize("seat", [0, 1, "random"])
@pytest.mark.parametrize(("game", "opponent"), [("hands", first_legal), ("auction", "random"), ("waltz", "dance")])
def test_gymnasium_checker_passes_and_rows_play_as_alone(game: str, opponent: Any, seat: Any) -> None:
    """Gymnasium's checker passes without a warning; each row of the vector plays what the single environment does."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(game, opponent=opponent, seat=seat))
    arguments = {**WIN, "opponent": opponent, "seat": seat}
    name, kind = f"league/{game.capitalize()}-v0", gymnasium.vector.AutoresetMode.SAME_STEP
    native = gymnasium.make_vec(name, 5, "vector_entry_point", **arguments)
    single = gymnasium.make_vec(name, 5, "sync", vector_kwargs={"autoreset_mode": kind}, **arguments)
    assert data_equivalence(native.reset(seed=11), single.reset(seed=11), exact=True)
    native.action_space.seed(3)
    ends = 0
    for _ in range(40):
        actions = native.action_space.sample()
        ours, theirs = native.step(actions), single.step(actions)
        assert data_equivalence(ours, theirs, exact=True)
        ends += int((ours[2] | ours[3]).sum())
    assert ends > 8


@pytest.mark.parametrize("seat", [0, 1])
def test_a_step_is_one_decision_of_the_learner(seat: int) -> None:
    """Hands has two decisions a seat: each match takes two steps, whoever begins, and rewards of waiting count."""
    env = make("hands", seat=seat, opponent=first_legal)
    batch = env._duel.batch
    rewards = []
    for number in range(30):
        env.reset(seed=number)
        for step in range(2):
            assert env._duel.turns.to_act[0].tolist() == [seat == 0, seat == 1]
            obs, reward, terminated, _, info = env.step([0, 0])
            assert terminated == (step == 1)
        assert reward == info["reward_terms"]["win"] == {seat: 1, 1 - seat: -1, -1: 0}[info["result"]["winner"]]
        assert info["result"]["ticks"] == 4 and (obs == batch.final_obs[0, seat]).all()
        rewards.append(reward)
    assert set(rewards) == {-1, 0, 1} or set(rewards) == {-1, 1}


class Tax(Match):
    """Each decision pays its own seat 1 and the other 10; whoever begins is drawn; 4 decisions."""

    action, obs_size, reward_terms = 2, 1, ("pay",)

    def reset(self, rng: np.random.Generator) -> None:
        self.to_move, self.left = int(rng.integers(2)), 4

    def observe(self, seat: int) -> Any:
        return [self.to_move == seat]

    def play(self, action: Any) -> None:
        assert self.to_move is not None
        self.reward(self.to_move, "pay", 1)
        self.reward(1 - self.to_move, "pay", 10)
        self.to_move, self.left = 1 - self.to_move, self.left - 1
        if self.left == 0:
            self.end(None)


def test_rewards_of_the_opponents_decisions_are_the_learners_next() -> None:
    """What the opponent's decisions give the learner counts for the decision before them, or, first, the next one."""
    registry._games["tax"] = Tax.as_game()
    env = league.gym.MatchEnv("tax", "random", rewards={"pay": 1.0, "win": 0.0})
    seen = set()
    for seed in range(12):
        env.reset(seed=seed)
        seen.add(tuple(env.step([0])[1] for _ in range(2)))
    assert seen == {(11.0, 11.0), (21.0, 1.0)}


def test_an_agent_remembers_its_own_decisions_alone() -> None:
    """In a stack of matches an agent acts in the rows that it decides in; its memory of a row is as if alone."""
    spec = registry.spec("auction", {})
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 16, "encoder_feedforward": 16}
    sizes |= {"history_tokens": 4, "latents": 2, "observation_width": 8, "lstm_size": 8, "head_sizes": (8,)}
    policy = ActorCritic(Architecture.of(spec, opponent_encoder=True, **sizes)).eval()
    together, alone = Agent(policy, None), [Agent(policy, None) for _ in range(3)]  # type: ignore[arg-type]
    obs = torch.rand(5, 3, spec.obs_size).numpy()
    for step, rows in enumerate([[0, 2], [1], [2, 0], [0, 1, 2], [2]]):
        played = together.act(obs[step, rows], greedy=True, rows=rows)
        for row, action in zip(rows, played, strict=True):
            assert int(alone[row].act(obs[step, row], greedy=True)[0]) == int(action[0])
    states = together._state.select(None)
    for row, agent in enumerate(alone):
        for name, tensor in agent._state.tensors().items():
            assert torch.allclose(tensor, states.select(torch.tensor([row])).tensors()[name], atol=1e-6), name
    for wrong in ([0, 0], [-1, 1], [0], [0.5, 1.5]):
        with pytest.raises(UsageError, match="rows="):
            together.act(obs[0, :2], rows=wrong)


@pytest.mark.parametrize("game", [*MATCHES, "cards", "kuhn", "matrix"])
def test_pettingzoo_checkers_pass(game: str) -> None:
    """PettingZoo's own checkers for agents in turn, of games in turns and of others."""
    if game == "hands":  # their sampling knows no legal tuples: an illegal one counts as the first legal
        assert TurnMatch(game, **WIN).action_space("player_0") == spaces.MultiDiscrete([5, 2])
    arguments: dict[str, Any] = {} if game in ("cards", "kuhn", "matrix") else WIN
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore",
            "(Observation (numpy array is all zeros|is a single|is not a NumPy|space for each)|Action space for each)",
        )
        api_test(TurnMatch(game, **arguments), num_cycles=60)
        seed_test(lambda: TurnMatch(game, **arguments), num_cycles=30)


@pytest.mark.parametrize("game", ["hands", "auction", "grid"])
def test_agents_in_turn_play_the_batchs_match(game: str) -> None:
    """Selection, views, masks, rewards and the end are those of the batch, under the same seed and actions."""
    batch = registry.make(game, rows=1, threads=1, options={})
    env = TurnMatch(game, rewards=dict.fromkeys(batch.spec.reward_terms, 0.0) | WIN["rewards"])
    env.reset(seed=5)
    batch.set_state(env._matches.batch.get_state())
    total, rng = dict.fromkeys(env.possible_agents, 0.0), np.random.default_rng(1)
    while env.agents:
        seats = [0, 1] if game == "grid" else np.flatnonzero(batch.to_act[0]).tolist()  # type: ignore[attr-defined]
        for seat in seats:
            agent = f"player_{seat}"
            obs, _, over, cut, info = env.last()
            assert env.agent_selection == agent and not over and not cut and (obs == batch.obs[0, seat]).all()
            unit = rng.random((1, 2, batch.spec.action.mask_size))
            action = batch.spec.action.legal_actions(batch.mask, unit)[0, seat]
            if game == "hands":
                assert tuple(action) in info["legal_tuples"]
            elif game == "grid":
                assert all(part[x] == 1 for part, x in zip(info["action_mask"], action, strict=True))
            batch.actions[0, seat] = action
            env.step(int(action[0]) if len(action) == 1 else action)
        batch.step()
        for seat, agent in enumerate(env.possible_agents):
            assert env.rewards[agent] == batch.reward_terms[0, seat, -1]
            total[agent] += env.rewards[agent]
        if batch.terminated[0] or batch.truncated[0]:
            for _ in range(2):
                obs, _, over, cut, info = env.last()
                assert (over, cut) == (batch.terminated[0], batch.truncated[0])
                assert (obs == batch.final_obs[0, env.possible_agents.index(env.agent_selection)]).all()
                assert info["result"]["winner"] == batch.result["winner"][0]
                env.step(None)
    assert sum(total.values()) == 0


def test_what_a_match_has_is_named_before_it_begins() -> None:
    """As in PettingZoo, by an AttributeError, which says what to call first."""
    env = TurnMatch("kuhn")
    for ask in (lambda: env.observe("player_0"), env.last, lambda: env.rewards):
        with pytest.raises(AttributeError, match=r"call reset\(\) first"):
            ask()
    env.reset(seed=1)
    assert env.last()[1] == 0.0
    with pytest.raises(AttributeError, match=r"has no reward$"):
        _ = env.reward


def test_agents_in_turn_play_mixtures() -> None:
    """Sampling under the mask of the info gives legal actions; what is refused moves nothing."""
    env = TurnMatch("waltz", **WIN)
    batch, spec = env._matches.batch, env._matches.spec.action
    masked = 0
    for number in range(6):
        env.reset(seed=number)
        while not any(env.terminations.values()) and not any(env.truncations.values()):
            agent = env.agent_selection
            seat, space = env.possible_agents.index(agent), env.action_space(agent)
            before = batch.get_state()
            with pytest.raises(UsageError, match=rf"{agent}'s action.* must be a dict of move, aim, rest"):
                env.step({"move": 0})
            assert batch.get_state() == before
            assert batch.mask is not None
            mask, allowed = batch.mask[0, seat].copy(), env.infos[agent]["action_mask"]
            masked += not mask.all()
            assert allowed["move"].tolist() == mask[:4].tolist() and allowed["aim"] is None
            assert set(env.observe(agent)) == {"floor", "shoes", "time", "opponent_last_action"}
            env.step(space.sample(allowed))
            assert spec.is_legal(batch.actions[0, seat], mask)
    assert masked > 5


def test_turns_are_refused_where_both_must_act_at_once() -> None:
    """The parallel form names the other; an action outside the space, or after the end, is one line."""
    with pytest.raises(UsageError, match=r"game='hands': it is played in turns; use league.zoo.TurnMatch"):
        ParallelMatch("hands", **WIN)
    env = TurnMatch("auction", **WIN)
    with pytest.raises(UsageError, match=r"call reset\(\) first"):
        env.step(0)
    env.reset(seed=0)
    state = env._matches.batch.get_state()
    for wrong in (3, -1, None, [0, 0], "x"):
        with pytest.raises(UsageError, match="player_0's action"):
            env.step(wrong)
    assert env._matches.batch.get_state() == state and env.agent_selection == "player_0"


class Recorder:
    """An opponent that remembers what it is shown, of how many rows ago, and plays the first legal action."""

    shown: ClassVar[list[tuple[str, np.ndarray, list[int]]]] = []  # of the class, since a copy plays

    def act(self, obs: Any, mask: Any, *, rows: Any = (0,)) -> Any:
        self.shown.append(("act", np.atleast_2d(obs), list(rows)))
        return first_legal(obs, mask)

    def watch(self, obs: Any, *, rows: Any = (0,)) -> None:
        self.shown.append(("watch", np.atleast_2d(obs), list(rows)))

    def reset(self, seed: int | None = None, *, rows: Any = None) -> None:
        self.shown.append(("reset", np.zeros((0, 0)), [] if rows is None else list(rows)))


class Whims(Match):
    """In turns: the match's generator says who decides next."""

    action, obs_size, opponent_slice = 2, 3, (1, 2)

    def reset(self, rng: np.random.Generator) -> None:
        self.rng, self.moves, self.to_move = rng, 0, int(rng.integers(2))

    def observe(self, seat: int) -> Any:
        return [self.moves / 9, seat, self.to_move == seat]

    def play(self, action: Any) -> None:
        self.moves += 1
        self.to_move = int(self.rng.integers(2))
        if self.moves == 9:
            self.end(None)


@pytest.mark.parametrize("rows", [None, 3])
def test_an_opponent_watches_where_it_waits_on(rows: int | None) -> None:
    """After each decision of the learner it decides or, where the learner decides again, watches what it sees then."""
    Recorder.shown = shown = []
    duel = Duel(Whims, rows, opponent=Recorder(), seat=0, rewards={"win": 1}, render_mode=None, options={})
    duel.start([np.random.default_rng(i) for i in range(rows or 1)])
    watched = 0
    for _ in range(60):
        shown.clear()
        step = duel.step(np.zeros((rows, 1) if rows else 1, np.int64))
        for row in np.flatnonzero(~(step.terminated | step.truncated)):
            mine = [(kind, seen[at.index(row)]) for kind, seen, at in shown if kind != "reset" and row in at]
            if mine == [] or mine[0][0] == "act":
                assert mine and {kind for kind, _ in mine} == {"act"}
            else:
                watched += 1
                assert len(mine) == 1 and np.array_equal(mine[0][1], duel.batch.obs[row, 1])
    assert watched > 10 * (rows or 1)
