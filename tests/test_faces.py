"""The games as Gymnasium and PettingZoo environments: their checkers pass, and the three forms play one game."""

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Dict
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode
from pettingzoo.test import parallel_api_test, parallel_seed_test

import league.gym
from league import config
from league.envs import registry
from league.envs.classic import matrix
from league.policies.actor_critic import ActorCritic, Architecture
from league.snapshots import Agent
from league.types import GameSpec
from league.zoo import ParallelMatch
from tests.helpers.cases import cases
from tests.helpers.refusals import refusal

ROOT = Path(__file__).resolve().parent.parent
SHORT: dict[str, dict[str, Any]] = {
    "brawl": {"time_limit_seconds": 4},
    "cards": {"decision_limit": 20},
    "matrix": {"rounds": 7},
    "kuhn": {"deals": 3},
    "leduc": {"deals": 2},
}
"""Options of matches that end within a test."""
GAMES = registry.games()
AT_ONCE = [game for game in GAMES if game != "cards"]
"""Whose seats decide at once; `test_turn_faces.py` is about the others."""
STEPS = 100
"""More than two matches of either game."""


def random_actions(spec: GameSpec, *shape: int) -> np.ndarray[Any, Any]:
    """Random actions (*shape, A)."""
    return np.random.default_rng(0).integers(0, spec.action.choices, (*shape, spec.action.num_parts))


def make(game: str, **arguments: Any) -> Any:
    """A single environment with short matches, without Gymnasium's wrappers."""
    return gymnasium.make(f"league/{game.title()}-v0", **{**SHORT[game], **arguments}).unwrapped


def make_vec(game: str, num_envs: int, mode: str, **arguments: Any) -> Any:
    """A vector environment with short matches that restart in the step that ends them."""
    how = {"autoreset_mode": AutoresetMode.SAME_STEP} if mode == "sync" else {}
    return gymnasium.make_vec(
        f"league/{game.title()}-v0", num_envs, mode, vector_kwargs=how, **{**SHORT[game], **arguments}
    )


@pytest.fixture
def add_game(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Registers a matrix game with other parts."""

    def add(name: str, **parts: Any) -> str:
        module = SimpleNamespace(**{"Options": matrix.Options, "spec": matrix.spec, "make": matrix.make, **parts})
        monkeypatch.setattr(registry, "_games", {**registry._games, name: module})
        return name

    return add


@pytest.mark.parametrize("arguments", [{}, {"seat": 1, "opponent": "random"}, {"seat": "random"}])
@pytest.mark.parametrize("game", GAMES)
def test_gymnasium_checker_passes_without_a_warning(game: str, arguments: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(game, **arguments))
        check_env(make(game, opponent=lambda obs, mask: make(game).action_space.sample() * 0))


@pytest.mark.parametrize("game", AT_ONCE)
def test_pettingzoo_checkers_pass_without_a_warning(game: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(ParallelMatch(game, **SHORT[game]), num_cycles=STEPS)
        parallel_seed_test(lambda: ParallelMatch(game, **SHORT[game]), num_cycles=STEPS)


def test_make_needs_no_import_with_the_module_before_the_id() -> None:
    code = "import gymnasium; print(gymnasium.make('league.gym:league/Brawl-v0').observation_space)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "Box(-1.0, 1.0, (64,), float32)\n", done.stderr


def agent(game: str) -> Agent:
    """An untrained agent that remembers its match and always takes its likeliest action."""
    sizes = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 8, "encoder_feedforward": 8, "latents": 2}
    sizes |= {"history_tokens": 3, "opponent_encoder": True, "observation_width": 8, "lstm_size": 8}

    class Greedy(Agent):
        def act(self, obs: Any, mask: Any = None, *, greedy: bool = True, rows: Any = None) -> Any:
            return super().act(obs, mask, greedy=greedy, rows=rows)

    torch.manual_seed(0)
    policy = ActorCritic(Architecture.of(registry.spec(game, {}), head_sizes=(), **sizes))
    for parameter in policy.parameters():
        parameter.data.normal_(0, 1)
    return Greedy(policy.requires_grad_(False).eval(), None)  # type: ignore[arg-type]  # play reads no manifest


USUAL = [("random", "random", game) for game in GAMES]


@pytest.mark.parametrize(
    ("seat", "opponent", "game"),
    cases(
        *USUAL,
        ("random", "agent", "brawl"),
        slow=[(seat, kind, game) for seat in (0, 1, "random") for kind in ("", "agent") for game in GAMES],
    ),
)
def test_vector_and_single_environments_play_the_same(seat: Any, opponent: str, game: str) -> None:
    """The native batch gives what Gymnasium's own vector of single environments gives, infos of ended rows included.

    An agent as the opponent plays N rows as N copies of it would: it forgets each row where its match ends.
    """
    player = agent(game)
    arguments = {"seat": seat} | ({"opponent": player if opponent == "agent" else opponent} if opponent else {})
    native = make_vec(game, 5, "vector_entry_point", **arguments)
    single = make_vec(game, 5, "sync", **arguments)
    assert native.observation_space == single.observation_space and native.action_space == single.action_space
    assert native.metadata == single.metadata
    assert data_equivalence(native.reset(seed=11), single.reset(seed=11), exact=True)
    ends, seats = np.zeros(5, int), set()
    for actions in random_actions(registry.spec(game, {}), STEPS, 5):
        ours, theirs = native.step(actions), single.step(actions)
        assert data_equivalence(ours, theirs, exact=True)
        ends += ours[2] | ours[3]
        if "final_info" in ours[4]:
            result = ours[4]["final_info"]["result"]
            seats |= set(result["seat"][result["_seat"]].tolist())
    assert ends.min() >= 2 and seats == ({0, 1} if seat == "random" else {seat})
    assert data_equivalence(native.reset(), single.reset(), exact=True)
    assert data_equivalence(native.reset(seed=[3, 1, 4, 1, 5]), single.reset(seed=[3, 1, 4, 1, 5]), exact=True)
    assert player._is_fresh, "a copy plays, not the agent itself"


def play(env: Any, seed: int | None, actions: np.ndarray[Any, Any]) -> list[Any]:
    """Everything that `env` returns under `actions`, match after match."""
    trace = [env.reset(seed=seed)]
    for action in actions:
        trace.append(env.step(action))
        if trace[-1][2] or trace[-1][3]:
            trace.append(env.reset())
    return trace


@pytest.mark.parametrize("game", cases("kuhn", "brawl", slow=GAMES))
def test_seed_gives_one_run(game: str) -> None:
    """`reset(seed)` repeats everything after it, the draws of an agent too; other seeds, and no seed, differ."""
    actions = random_actions(registry.spec(game, {}), STEPS)
    for opponent in ("random", Agent(agent(game).policy, None)):  # type: ignore[arg-type]
        arguments: dict[str, Any] = {"opponent": opponent, "seat": "random"}
        env, fresh = make(game, **arguments), make(game, **arguments)
        first = play(env, 5, actions)
        assert data_equivalence(first, play(env, 5, actions), exact=True)
        assert data_equivalence(first, play(fresh, 5, actions), exact=True)
        followed = play(env, None, actions)
        assert data_equivalence(followed, play(fresh, None, actions), exact=True)
        assert not any(data_equivalence(first, other) for other in (followed, play(env, 6, actions)))


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("game", GAMES)
def test_reward_and_result_are_the_matchs(game: str, seat: int) -> None:
    """Weights are the source's unless given; the result agrees with them, the batch's own record and the options."""
    spec, defaults = registry.spec(game, {}), config.load(env=game).rewards
    given: dict[str, float] = {spec.reward_terms[0]: 5.0, "win": -3} if seat else {}
    weights, rewards, seeds = {**defaults, **given}, set(), set()
    assert set(defaults) == set(spec.reward_terms)
    env = make(game, seat=seat, opponent="random", rewards=given)
    record = env._duel.batch.result
    env.reset(seed=2)
    for action in random_actions(spec, STEPS):
        _, reward, terminated, truncated, info = env.step(action)
        terms, is_over = info["reward_terms"], terminated or truncated
        assert reward == pytest.approx(sum(weights[name] * terms[name] for name in spec.reward_terms), abs=1e-6)
        assert ("result" in info) == is_over
        assert ("action_mask" in info) == (env._duel.batch.mask is not None and not is_over)
        rewards.add(reward)
        if is_over:
            result = info["result"]
            assert terms["win"] == {seat: 1, 1 - seat: -1, -1: 0}[result["winner"]]
            assert result["seat"] == seat and result["winner"] == record["winner"][0]
            assert result["end_reason"] == spec.end_reasons[record["end_reason"][0]]
            assert (result["ticks"], result["seed"]) == (record["ticks"][0], record["seed"][0])
            for index, name in enumerate(spec.metrics):
                assert np.array_equal(result["metrics"][name], record["metrics"][0, [seat, 1 - seat], index])
            seeds.add(result["seed"])
            env.reset()
    assert len(seeds) >= 2 and len(rewards) > 2


@pytest.mark.parametrize("game", AT_ONCE)
def test_both_seats_and_pettingzoo_play_one_match(game: str) -> None:
    """The learner in seat 0, in seat 1, and both players outside: with the same actions, one and the same match."""
    actions = random_actions(registry.spec(game, {}), STEPS, 2)
    seen: dict[int, list[Any]] = {0: [], 1: []}

    def answering(seat: int) -> Callable[[Any, Any], Any]:
        def act(obs: Any, mask: Any) -> Any:
            seen[seat].append((obs, mask))
            return actions[len(seen[seat]) - 1, seat]

        return act

    learners = [make(game, seat=seat, opponent=answering(1 - seat)) for seat in (0, 1)]
    zoo = ParallelMatch(game, **SHORT[game])
    views, both, ends = [env.reset(seed=9) for env in learners], zoo.reset(seed=9), 0
    for both_actions in actions:
        for seat in (0, 1):
            assert data_equivalence(views[seat], tuple(part[f"player_{seat}"] for part in both), exact=True)
        views = [env.step(both_actions[seat]) for seat, env in enumerate(learners)]
        for seat in (0, 1):
            obs, mask = seen[seat][-1]
            assert np.array_equal(obs, both[0][f"player_{seat}"])
            assert mask is None or np.array_equal(mask, both[1][f"player_{seat}"]["action_mask"])
        step = zoo.step({f"player_{seat}": both_actions[seat] for seat in (0, 1)})
        for seat in (0, 1):
            assert data_equivalence(views[seat], tuple(part[f"player_{seat}"] for part in step), exact=True)
        views, both = [(view[0], view[-1]) for view in views], (step[0], step[-1])
        if not zoo.agents:
            ends += 1
            views, both = [env.reset() for env in learners], zoo.reset()
    assert ends >= 2


def test_default_opponent_is_the_bot_that_training_meets_most() -> None:
    """Without an opponent the largest share of the mix plays; the environment's name alone is enough."""
    mix = config.load(env="brawl").pool.mix
    assert mix["bot:based"] == max(share for name, share in mix.items() if name.startswith("bot:"))
    actions = random_actions(registry.spec("brawl", {}), 20)
    assert data_equivalence(play(make("brawl"), 1, actions), play(make("brawl", opponent="based"), 1, actions))


def test_options_default_to_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A keyword changes the game; else an option is that of hyperparameters.toml, not the game's own default."""
    text = config.SOURCE.read_text()
    assert "rounds = 10" in text
    (tmp_path / "source.toml").write_text(text.replace("rounds = 10", "rounds = 3"))
    monkeypatch.setattr(config, "SOURCE", tmp_path / "source.toml")
    for given, rounds in (({}, 3), ({"rounds": 2}, 2)):
        env = gymnasium.make("league/Matrix-v0", **given)
        env.reset(seed=0)
        assert [env.step([0])[2] for _ in range(rounds)] == [*[False] * (rounds - 1), True]


def test_arrays_given_out_are_not_written_again() -> None:
    env = make_vec("brawl", 3, "vector_entry_point")
    env.reset(seed=1)
    kept = []
    for actions in random_actions(registry.spec("brawl", {}), 60, 3):
        step = env.step(actions)
        kept.append((step, deepcopy(step)))
    assert all(data_equivalence(step, copied, exact=True) for step, copied in kept)


def test_drawn_game_gives_frames(add_game: Callable[..., str]) -> None:
    """A game's `render` is what `rgb_array` shows, with as many frames a second as decisions; other modes are none."""

    def render(batch: Any, row: int) -> np.ndarray[Any, Any]:
        return np.full((4, 6, 3), batch.obs[row].sum() * 10, np.uint8)

    name, how = add_game("drawn", render=render, drawing=matrix.drawing), {"rewards": {"payoff": 1.0}}
    league.gym.register(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("league/Drawn-v0", render_mode="rgb_array", **how).unwrapped
        check_env(env)
    assert env.metadata == {"render_modes": ["rgb_array"], "render_fps": 1.0}
    env.reset(seed=0)
    before = env.render()
    env.step([0])
    assert before.shape == (4, 6, 3) and not np.array_equal(before, env.render())
    vector = gymnasium.make_vec("league/Drawn-v0", 3, render_mode="rgb_array", **how)
    vector.reset(seed=0)
    assert len(vector.render()) == 3
    zoo = ParallelMatch(name, render_mode="rgb_array", **how)
    zoo.reset(seed=0)
    assert np.array_equal(zoo.render(), before)
    assert "rgb_array only" in refusal(lambda: league.gym.MatchEnv(name, render_mode="ansi", **how))
    del gymnasium.registry["league/Drawn-v0"]


def test_game_that_cannot_be_drawn_refuses_a_render_mode(add_game: Callable[..., str]) -> None:
    """`rgb_array` for a game without shapes or pictures is one line; shapes alone are pictures."""
    name, how = add_game("plain"), {"rewards": {"payoff": 1.0}}
    for face in (league.gym.MatchEnv, league.gym.MatchVectorEnv, ParallelMatch):
        assert "render_mode='rgb_array'" in refusal(lambda face=face: face(name, render_mode="rgb_array", **how))  # type: ignore[misc]
    env = league.gym.MatchEnv(name, **how)
    env.reset()
    assert env.metadata["render_modes"] == [] and env.render() is None
    drawn = make("matrix", render_mode="rgb_array")
    drawn.reset(seed=1)
    assert drawn.render().shape == (540, 960, 3) and drawn.render().std() > 5


def test_game_without_bots_needs_an_opponent(add_game: Callable[..., str]) -> None:
    def botless(**arguments: Any) -> Any:
        batch = matrix.make(**arguments)
        batch.spec = replace(batch.spec, bots=(), anchor=None, floor=None)
        return batch

    name, how = add_game("botless", make=botless), {"rewards": {"win": 1.0}}
    assert "has no bots" in refusal(lambda: league.gym.MatchEnv(name, **how))
    other = Agent.load(Path(league.__path__[0]) / "arena" / "bundled" / "weak")
    assert "opponent: the agent plays brawl, and the game is matrix; pass" in refusal(
        lambda: league.gym.MatchEnv(name, other, **how)
    )
    assert league.gym.MatchEnv(name, lambda obs, mask: [0], **how).reset(seed=1)


KEYS = np.zeros(10, int)
BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"opponent": "base"}, "opponent='base' `based`"),
    ({"opponent": 3}, "opponent=3 act(obs, mask)"),
    ({"opponent": lambda obs, legal, rng: legal[0]}, "opponent= (obs, mask) -> action"),
    ({"seat": 2}, "seat=2"),
    ({"seat": True}, "seat=True"),
    ({"oponent": "based"}, "oponent='based' `opponent`"),
    ({"time_limit": 20}, "time_limit=20 `time_limit_seconds`"),
    ({"time_limit_seconds": 0}, "time_limit_seconds=0 1"),
    ({"rewards": {"wim": 1.0}}, "rewards.wim=1 `win`"),
    ({"rewards": {"win": "much"}}, "rewards.win='much'"),
    ({"rewards": {"win": float("nan")}}, "rewards.win=nan"),
    ({"rewards": dict.fromkeys(config.load(env="brawl").rewards, 0.0)}, "every weight 0; give"),
    ({"rewards": [1.0]}, "rewards=[1.0]"),
]
BAD_ACTIONS = {
    "(10,), got (9,)": KEYS[:9],
    "action[0]=2": KEYS + 2,
    "action[0]=-1": KEYS - 1,
    "action[0]=0.5": KEYS + 0.5,
    "action[0]=nan": KEYS + np.nan,
    "action=None": None,
    "action=[[0], [1, 0]]": [[0], [1, 0]],
    "action='jump'": "jump",
}


@pytest.mark.parametrize(("arguments", "parts"), BAD_ARGUMENTS)
@pytest.mark.parametrize("make_one", [gymnasium.make, gymnasium.make_vec])
def test_bad_argument_is_one_line(make_one: Any, arguments: dict[str, Any], parts: str) -> None:
    message = refusal(lambda: make_one("league/Brawl-v0", **arguments))
    assert [part for part in parts.split() if part not in message] == [], message


@pytest.mark.parametrize("part", BAD_ACTIONS)
def test_bad_action_is_one_line_and_moves_nothing(part: str) -> None:
    """An action outside the space is refused wherever it comes from; the match goes on as if it had not been tried."""
    action = BAD_ACTIONS[part]
    env, same, zoo = make("brawl"), make("brawl"), ParallelMatch("brawl")
    against = make("brawl", opponent=lambda obs, mask: action)
    for each in (env, same, zoo, against):
        each.reset(seed=1)
    assert part in refusal(lambda: env.step(action))
    assert "actions['player_1']" in refusal(lambda: zoo.step({"player_0": KEYS, "player_1": action}))
    assert data_equivalence(env.step(KEYS), same.step(KEYS), exact=True)
    assert "the opponent's action" in refusal(lambda: against.step(KEYS))


def test_bad_call_is_one_line() -> None:
    """A step before the first reset or after the end; seeds, sizes and resets of the vector form that do not fit."""
    env: Any = make_vec("brawl", 3, "vector_entry_point")
    actions = np.zeros((3, 10))
    actions[2, 4] = 7
    for call, part in (
        (lambda: env.step(np.zeros((3, 10))), "reset() first"),
        (lambda: env.reset(seed=[1, 2]), "seed=[1, 2]"),
        (lambda: env.reset(seed="1"), "seed='1'"),
        (lambda: env.reset(options={"reset_mask": np.ones(3, bool)}), "reset_mask"),
        (lambda: env.reset(seed=1) and env.step(actions), "action[2, 4]=7.0"),
        (lambda: env.step(KEYS), "(3, 10), got (10,)"),
        (lambda: make_vec("brawl", 0, "vector_entry_point"), "num_envs=0"),
    ):
        assert part in refusal(call)
    env, zoo = make("matrix", rounds=1), ParallelMatch("matrix", rounds=1)
    both = {"player_0": [0], "player_1": [1]}
    for _ in range(2):
        assert "call reset() first" in refusal(lambda: env.step([0]))
        assert "call reset() first" in refusal(lambda: zoo.step(both))
        env.reset(seed=1), zoo.reset(seed=1)
        assert "player_1" in refusal(lambda: zoo.step({"player_0": [0]}))
        assert env.step([0])[2] and zoo.step(both)[2] == {"player_0": True, "player_1": True}
    assert "options={'x': 1}" in refusal(lambda: env.reset(options={"x": 1}))


@pytest.mark.parametrize("index", range(7))
def test_page_prints_what_it_says(index: int) -> None:
    """Each block of docs/environments.md and docs/bring.md runs and prints the text below it."""
    text = "".join((ROOT / "docs" / name).read_text() for name in ("environments.md", "bring.md"))
    blocks = re.findall(r"```python\n((?:(?!```).)*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 7
    code, printed = blocks[index]
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == printed, done.stderr


@pytest.mark.slow
def test_stable_baselines_trains_on_both_games_unchanged() -> None:
    """Stable-Baselines3's checker passes, and its PPO learns from the environments as they are."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_checker import check_env as check_for_stable_baselines

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for game in GAMES:
            check_for_stable_baselines(make(game))
            policy = "MultiInputPolicy" if isinstance(make(game).observation_space, Dict) else "MlpPolicy"
            assert PPO(policy, make(game), n_steps=64, device="cpu").learn(128).num_timesteps == 128
    example = [sys.executable, ROOT / "examples" / "sb3.py", "2048"]
    done = subprocess.run(example, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "of 20 matches after 2048 steps" in done.stdout, done.stderr
