"""The games as Gymnasium and PettingZoo environments: their checkers pass, and the three forms play one game."""

import dataclasses
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
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
from league.errors import LeagueError
from league.policies.actor_critic import ActorCritic, Architecture
from league.snapshots import Agent
from league.types import GameSpec
from league.zoo import ParallelMatch
from tests.helpers.cases import cases

ROOT = Path(__file__).resolve().parent.parent
SHORT: dict[str, dict[str, Any]] = {
    "brawl": {"time_limit_seconds": 4},
    "cards": {"decision_limit": 20},
    "matrix": {"rounds": 7},
    "kuhn": {"deals": 3},
    "leduc": {"deals": 2},
}
"""Options of matches that end within a test."""
IDS = {name: f"league/{name.title()}-v0" for name in ("brawl", "cards", "matrix", "kuhn", "leduc")}
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
    return gymnasium.make(IDS[game], **{**SHORT[game], **arguments}).unwrapped


def make_vec(game: str, num_envs: int, mode: str, **arguments: Any) -> Any:
    """A vector environment with short matches that restart in the step that ends them."""
    vector_kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP} if mode == "sync" else {}
    return gymnasium.make_vec(IDS[game], num_envs, mode, vector_kwargs=vector_kwargs, **{**SHORT[game], **arguments})


@pytest.fixture
def drawn_game(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A game with a `render` of its own beside its shapes, known to the registry and to Gymnasium."""

    def render(batch: Any, row: int) -> np.ndarray[Any, Any]:
        return np.full((4, 6, 3), batch.obs[row].sum() * 10, np.uint8)

    module = SimpleNamespace(Options=matrix.Options, spec=matrix.spec, make=matrix.make, render=render)
    module.drawing = matrix.drawing
    monkeypatch.setattr(registry, "_games", {**registry._games, "drawn": module})
    league.gym.register("drawn")
    yield "drawn"
    del gymnasium.registry["league/Drawn-v0"]


@pytest.mark.parametrize("arguments", [{}, {"seat": 1, "opponent": "random"}, {"seat": "random"}])
@pytest.mark.parametrize("game", GAMES)
def test_gymnasium_checker_passes_without_a_warning(game: str, arguments: dict[str, Any]) -> None:
    """Every registered game passes Gymnasium's own checker, in either seat."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(game, **arguments))
        check_env(make(game, opponent=lambda obs, mask: make(game).action_space.sample() * 0))


@pytest.mark.parametrize("game", AT_ONCE)
def test_pettingzoo_checkers_pass_without_a_warning(game: str) -> None:
    """Every registered game passes PettingZoo's own checkers."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(ParallelMatch(game, **SHORT[game]), num_cycles=STEPS)
        parallel_seed_test(lambda: ParallelMatch(game, **SHORT[game]), num_cycles=STEPS)


def test_make_needs_no_import_with_the_module_before_the_id() -> None:
    """`gymnasium.make("league.gym:league/Brawl-v0")` works where nothing of league was imported."""
    code = "import gymnasium; print(gymnasium.make('league.gym:league/Brawl-v0').observation_space)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "Box(-1.0, 1.0, (64,), float32)\n", done.stderr


@pytest.mark.parametrize("arguments", cases({"seat": "random", "opponent": "random"}, slow=[{}, {"seat": 1}]))
@pytest.mark.parametrize("game", GAMES)
def test_vector_and_single_environments_play_the_same(game: str, arguments: dict[str, Any]) -> None:
    """The native batch gives what Gymnasium's own vector of single environments gives, infos of ended rows included."""
    native = make_vec(game, 5, "vector_entry_point", **arguments)
    single = make_vec(game, 5, "sync", **arguments)
    assert native.observation_space == single.observation_space and native.action_space == single.action_space
    assert native.metadata == single.metadata
    assert data_equivalence(native.reset(seed=11), single.reset(seed=11), exact=True)
    ends, seats = 0, set()
    for actions in random_actions(registry.spec(game, {}), STEPS, 5):
        ours, theirs = native.step(actions), single.step(actions)
        assert data_equivalence(ours, theirs, exact=True)
        ends += (ours[2] | ours[3]).sum()
        if "final_info" in ours[4]:
            result = ours[4]["final_info"]["result"]
            seats |= set(result["seat"][result["_seat"]].tolist())
    assert ends >= 10
    assert seats == ({0, 1} if arguments.get("seat") == "random" else {arguments.get("seat", 0)})
    assert data_equivalence(native.reset(), single.reset(), exact=True)
    assert data_equivalence(native.reset(seed=[3, 1, 4, 1, 5]), single.reset(seed=[3, 1, 4, 1, 5]), exact=True)
    native.close()


def play(env: Any, seed: int | None, actions: np.ndarray[Any, Any]) -> list[Any]:
    """Everything that `env` returns under `actions`, match after match."""
    trace = [env.reset(seed=seed)]
    for action in actions:
        trace.append(env.step(action))
        if trace[-1][2] or trace[-1][3]:
            trace.append(env.reset())
    return trace


@pytest.mark.parametrize("game", GAMES)
def test_seed_gives_one_run(game: str) -> None:
    """`reset(seed)` repeats everything after it, bit for bit; other seeds, and no seed, differ from it."""
    actions = random_actions(registry.spec(game, {}), STEPS)
    arguments = {"opponent": "random", "seat": "random"}
    env, fresh = make(game, **arguments), make(game, **arguments)
    first = play(env, 5, actions)
    assert data_equivalence(first, play(env, 5, actions), exact=True)
    assert data_equivalence(first, play(fresh, 5, actions), exact=True)
    followed = play(env, None, actions)
    assert data_equivalence(followed, play(fresh, None, actions), exact=True)
    others = [followed, play(env, 6, actions), play(make(game, **arguments), None, actions)]
    assert not any(data_equivalence(first, other) for other in others)


@pytest.mark.parametrize("game", GAMES)
def test_reward_is_the_weighted_sum_of_the_terms(game: str) -> None:
    """Weights are the source's unless given; a given one replaces one and leaves the others."""
    spec, defaults = registry.spec(game, {}), config.load(env=game).rewards
    assert set(defaults) == set(spec.reward_terms)
    for given in ({}, {spec.reward_terms[0]: 5.0, "win": -3}):
        env, weights = make(game, rewards=given), {**defaults, **given}
        rewards = set()
        for _, reward, *_, info in (step for step in play(env, 1, random_actions(spec, STEPS)) if len(step) == 5):
            terms = info["reward_terms"]
            assert reward == pytest.approx(sum(weights[name] * terms[name] for name in spec.reward_terms), abs=1e-6)
            rewards.add(reward)
        assert len(rewards) > 2


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("game", GAMES)
def test_info_at_the_end_has_the_result(game: str, seat: int) -> None:
    """The result agrees with the reward of winning, with the batch's own record and with the options."""
    env, spec = make(game, seat=seat, opponent="random"), registry.spec(game, {})
    record = env._duel.batch.result
    env.reset(seed=2)
    results = []
    for action in random_actions(spec, STEPS):
        *_, terminated, truncated, info = env.step(action)
        is_over = terminated or truncated
        assert ("result" in info) == is_over
        assert ("action_mask" in info) == (env._duel.batch.mask is not None and not is_over)
        if not is_over:
            continue
        result = info["result"]
        assert info["reward_terms"]["win"] == {seat: 1, 1 - seat: -1, -1: 0}[result["winner"]]
        assert result["seat"] == seat and result["winner"] == record["winner"][0]
        assert result["end_reason"] == spec.end_reasons[record["end_reason"][0]]
        assert (result["ticks"], result["seed"]) == (record["ticks"][0], record["seed"][0])
        for index, name in enumerate(spec.metrics):
            assert np.array_equal(result["metrics"][name], record["metrics"][0, [seat, 1 - seat], index])
        results.append(result)
        env.reset()
    assert len({result["seed"] for result in results}) >= 2


@pytest.mark.parametrize("game", AT_ONCE)
def test_both_seats_and_pettingzoo_play_one_match(game: str) -> None:
    """The learner in seat 0, in seat 1, and both players outside: with the same actions, one and the same match."""
    spec = registry.spec(game, {})
    actions = random_actions(spec, STEPS, 2)
    seen: dict[int, list[Any]] = {0: [], 1: []}

    def answering(seat: int) -> Callable[[Any, Any], Any]:
        def act(obs: Any, mask: Any) -> Any:
            seen[seat].append((obs, mask))
            return actions[len(seen[seat]) - 1, seat]

        return act

    learners = [make(game, seat=seat, opponent=answering(1 - seat)) for seat in (0, 1)]
    zoo = ParallelMatch(game, **SHORT[game])
    views = [env.reset(seed=9) for env in learners]
    both = zoo.reset(seed=9)
    ends = 0
    for both_actions in actions:
        for seat in (0, 1):
            player = f"player_{seat}"
            assert data_equivalence(views[seat], (both[0][player], both[1][player]), exact=True)
        views = [env.step(both_actions[seat]) for seat, env in enumerate(learners)]
        for seat in (0, 1):
            obs, mask = seen[seat][-1]
            assert np.array_equal(obs, both[0][f"player_{seat}"])
            assert mask is None or np.array_equal(mask, both[1][f"player_{seat}"]["action_mask"])
        zoo_step = zoo.step({f"player_{seat}": both_actions[seat] for seat in (0, 1)})
        for seat in (0, 1):
            assert data_equivalence(views[seat], tuple(part[f"player_{seat}"] for part in zoo_step), exact=True)
        views, both = [(view[0], view[-1]) for view in views], (zoo_step[0], zoo_step[-1])
        if not zoo.agents:
            ends += 1
            views, both = [env.reset() for env in learners], zoo.reset()
    assert ends >= 2


def agent(game: str) -> Agent:
    """An untrained agent that remembers its match and always takes its likeliest action."""
    spec = registry.spec(game, {})
    sizes = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 8, "encoder_feedforward": 8, "latents": 2}
    architecture = Architecture.of(
        spec, history_tokens=3, opponent_encoder=True, observation_width=8, lstm_size=8, head_sizes=(), **sizes
    )

    class Greedy(Agent):
        def act(self, obs: Any, mask: Any = None, *, greedy: bool = True, rows: Any = None) -> Any:
            return super().act(obs, mask, greedy=greedy, rows=rows)

    torch.manual_seed(0)
    policy = ActorCritic(architecture)
    for parameter in policy.parameters():
        parameter.data.normal_(0, 1)
    return Greedy(policy.requires_grad_(False).eval(), None)  # type: ignore[arg-type]  # play reads no manifest


@pytest.mark.parametrize("game", cases("brawl", slow=GAMES))
def test_agent_forgets_each_row_where_its_match_ends(game: str) -> None:
    """An agent as the opponent plays N rows at once as N copies of it would, match after match."""
    opponent = agent(game)
    arguments = {"opponent": opponent, "seat": "random"}
    native, single = (make_vec(game, 4, mode, **arguments) for mode in ("vector_entry_point", "sync"))
    assert data_equivalence(native.reset(seed=3), single.reset(seed=3), exact=True)
    ends = np.zeros(4, int)
    for actions in random_actions(registry.spec(game, {}), STEPS, 4):
        ours, theirs = native.step(actions), single.step(actions)
        ends += ours[2] | ours[3]
        assert data_equivalence(ours, theirs, exact=True)
    assert ends.min() >= 2
    assert opponent._is_fresh, "a copy plays, not the agent itself"


def test_opponent_is_told_whose_match_begins() -> None:
    """`reset(rows=...)` names the rows whose matches ended, and no others."""
    told = []

    class Counter:
        """Counts the decisions of each row's match."""

        age = np.zeros(4, int)

        def act(self, obs: Any, mask: Any) -> Any:
            self.age = self.age + 1
            told.append(self.age)
            return np.zeros((4, 10))

        def reset(self, seed: int | None = None, *, rows: Any = slice(None)) -> None:
            self.age = self.age.copy()
            self.age[rows] = 0

    env = make_vec("brawl", 4, "vector_entry_point", opponent=Counter(), stocks=1, time_limit_seconds=60)
    env.reset(seed=3)
    age, ends = np.zeros(4, int), set()
    for actions in random_actions(registry.spec("brawl", {}), 4 * STEPS, 4):
        _, _, terminated, truncated, _ = env.step(actions)
        age += 1
        assert np.array_equal(told[-1], age)
        ends.add((terminated | truncated).sum())
        age[terminated | truncated] = 0
    assert ends & {1, 2, 3}, "rows end at different times"


def test_agent_that_draws_repeats_under_a_seed() -> None:
    """`reset(seed)` reaches the draws of an agent, too."""
    actions = random_actions(registry.spec("matrix", {}), STEPS)
    player = Agent(agent("matrix").policy, None)  # type: ignore[arg-type]
    env = make("matrix", opponent=player)
    first = play(env, 5, actions)
    assert data_equivalence(first, play(env, 5, actions), exact=True)
    assert not data_equivalence(first, play(env, 6, actions))


def test_default_opponent_is_the_bot_that_training_meets_most() -> None:
    """Without an opponent the largest share of the mix plays; the environment's name alone is enough."""
    mix = config.load(env="brawl").pool.mix
    assert mix["bot:based"] == max(share for name, share in mix.items() if name.startswith("bot:"))
    actions = random_actions(registry.spec("brawl", {}), 20)
    assert data_equivalence(play(make("brawl"), 1, actions), play(make("brawl", opponent="based"), 1, actions))


def test_options_default_to_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An option that is not given is the one of hyperparameters.toml, not the game's own default."""
    text = config.SOURCE.read_text()
    assert "rounds = 10" in text
    (tmp_path / "source.toml").write_text(text.replace("rounds = 10", "rounds = 3"))
    monkeypatch.setattr(config, "SOURCE", tmp_path / "source.toml")
    env = gymnasium.make("league/Matrix-v0")
    env.reset(seed=0)
    assert [env.step([0])[2] for _ in range(3)] == [False, False, True]


def test_options_reach_the_game() -> None:
    """A game's option given as a keyword changes the game."""
    lengths = []
    for rounds in (2, 5):
        env = gymnasium.make("league/Matrix-v0", rounds=rounds, opponent="random")
        env.reset(seed=0)
        lengths.append(next(n for n in range(1, 9) if env.step([0])[2]))
    assert lengths == [2, 5]


def test_arrays_given_out_are_not_written_again() -> None:
    """What a vector step returned is the caller's to keep."""
    env = make_vec("brawl", 3, "vector_entry_point")
    kept, copies = [], []
    env.reset(seed=1)
    for actions in random_actions(registry.spec("brawl", {}), 60, 3):
        step = env.step(actions)
        kept.append(step)
        copies.append([np.copy(array) for array in (*step[:4], step[4]["action_mask"])])
    for step, copied in zip(kept, copies, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip((*step[:4], step[4]["action_mask"]), copied, strict=True))


def test_drawn_game_gives_frames(drawn_game: str) -> None:
    """A game's `render` is what `rgb_array` shows, with as many frames a second as decisions."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("league/Drawn-v0", render_mode="rgb_array", rewards={"payoff": 1.0}).unwrapped
        check_env(env)
    assert env.metadata == {"render_modes": ["rgb_array"], "render_fps": 1.0}
    env.reset(seed=0)
    before = env.render()
    env.step([0])
    assert before.shape == (4, 6, 3) and not np.array_equal(before, env.render())
    vector = gymnasium.make_vec("league/Drawn-v0", 3, render_mode="rgb_array", rewards={"payoff": 1.0})
    vector.reset(seed=0)
    assert len(vector.render()) == 3
    zoo = ParallelMatch(drawn_game, render_mode="rgb_array", rewards={"payoff": 1.0})
    zoo.reset(seed=0)
    assert np.array_equal(zoo.render(), before)


KEYS = np.zeros(10, int)
BAD_ARGUMENTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"opponent": "base"}, ("opponent='base'", "brawl has no such bot", "did you mean `based`?")),
    ({"opponent": 3}, ("opponent=3", "a bot's name (constant, random, based, ", "act(obs, mask)")),
    ({"seat": 2}, ("seat=2", "0, 1 or 'random'")),
    ({"seat": True}, ("seat=True", "0, 1 or 'random'")),
    ({"oponent": "based"}, ("oponent='based'", "did you mean `opponent`?")),
    ({"time_limit": 20}, ("time_limit=20", "did you mean `time_limit_seconds`?")),
    ({"time_limit_seconds": 0}, ("time_limit_seconds=0", "greater than or equal to 1")),
    ({"rewards": {"wim": 1.0}}, ("rewards.wim=1", "did you mean `win`?")),
    ({"rewards": {"win": "much"}}, ("rewards.win='much'", "number")),
    ({"rewards": {"win": float("nan")}}, ("rewards.win=nan", "finite")),
    ({"rewards": dict.fromkeys(config.load(env="brawl").rewards, 0.0)}, ("every weight is 0", "give one")),
    ({"rewards": [1.0]}, ("rewards=[1.0]", "must map reward terms to weights")),
]
BAD_ACTIONS: list[tuple[Any, tuple[str, ...]]] = [
    (KEYS[:9], ("action: shape must be (10,), got (9,)",)),
    (KEYS + 2, ("action[0]=2", "integer from 0 to 1")),
    (KEYS - 1, ("action[0]=-1", "integer from 0 to 1")),
    (KEYS + 0.5, ("action[0]=0.5", "integer from 0 to 1")),
    (KEYS + np.nan, ("action[0]=nan", "integer from 0 to 1")),
    (None, ("action=None", "numbers of shape (10,)")),
    ([[0], [1, 0]], ("action=[[0], [1, 0]]", "numbers of shape (10,)")),
    ("jump", ("action='jump'", "numbers of shape (10,)")),
]


def refusal(call: Callable[[], Any]) -> str:
    """The message of the error that `call` raises, which must be one line."""
    with pytest.raises(LeagueError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("arguments", "parts"), BAD_ARGUMENTS)
@pytest.mark.parametrize("make_one", [gymnasium.make, gymnasium.make_vec])
def test_bad_argument_is_one_line(make_one: Any, arguments: dict[str, Any], parts: tuple[str, ...]) -> None:
    """A wrong argument names itself, its value and the rule, in the single and the vector form."""
    message = refusal(lambda: make_one("league/Brawl-v0", **arguments))
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(("action", "parts"), BAD_ACTIONS)
def test_bad_action_is_one_line_and_moves_nothing(action: Any, parts: tuple[str, ...]) -> None:
    """An action outside the space is refused wherever it comes from; the match goes on as if it had not been tried."""
    env, same = make("brawl"), make("brawl")
    zoo = ParallelMatch("brawl")
    env.reset(seed=1), same.reset(seed=1), zoo.reset(seed=1)
    assert all(part in refusal(lambda: env.step(action)) for part in parts)
    assert "actions['player_1']" in refusal(lambda: zoo.step({"player_0": KEYS, "player_1": action}))
    assert data_equivalence(env.step(KEYS), same.step(KEYS), exact=True)
    against = make("brawl", opponent=lambda obs, mask: action)
    against.reset(seed=1)
    assert "the opponent's action" in refusal(lambda: against.step(KEYS))


def test_bad_vector_call_is_one_line() -> None:
    """The vector form names the row of a bad action, and refuses seeds, sizes and resets that do not fit."""
    env = make_vec("brawl", 3, "vector_entry_point")
    assert "reset() first" in refusal(lambda: env.step(np.zeros((3, 10))))
    assert "seed=[1, 2]" in refusal(lambda: env.reset(seed=[1, 2]))
    assert "seed='1'" in refusal(lambda: env.reset(seed="1"))
    assert "reset_mask" in refusal(lambda: env.reset(options={"reset_mask": np.ones(3, bool)}))
    env.reset(seed=1)
    actions = np.zeros((3, 10))
    actions[2, 4] = 7
    assert "action[2, 4]=7.0: must be an integer from 0 to 1" in refusal(lambda: env.step(actions))
    assert "shape must be (3, 10), got (10,)" in refusal(lambda: env.step(KEYS))
    assert "num_envs=0" in refusal(lambda: make_vec("brawl", 0, "vector_entry_point"))


def test_match_that_is_over_takes_no_step() -> None:
    """After the end, and before the first reset, a step is refused."""
    env, zoo = make("matrix", rounds=1), ParallelMatch("matrix", rounds=1)
    zoo_step = {"player_0": [0], "player_1": [1]}
    for _ in range(2):
        assert "call reset() first" in refusal(lambda: env.step([0]))
        assert "call reset() first" in refusal(lambda: zoo.step(zoo_step))
        env.reset(seed=1), zoo.reset(seed=1)
        assert "one for each of player_0, player_1" in refusal(lambda: zoo.step({"player_0": [0]}))
        assert env.step([0])[2] and zoo.step(zoo_step)[2] == {"player_0": True, "player_1": True}
    assert "options={'x': 1}" in refusal(lambda: env.reset(options={"x": 1}))


def test_game_that_cannot_be_drawn_refuses_a_render_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rgb_array` for a game without shapes or pictures is one clear line; shapes alone are pictures."""
    module = SimpleNamespace(Options=matrix.Options, spec=matrix.spec, make=matrix.make)
    monkeypatch.setattr(registry, "_games", {**registry._games, "plain": module})
    for face in (league.gym.MatchEnv, league.gym.MatchVectorEnv, ParallelMatch):
        line = refusal(lambda face=face: face("plain", render_mode="rgb_array", rewards={"payoff": 1.0}))  # type: ignore[misc]
        assert line == "render_mode='rgb_array': plain cannot be drawn; leave render_mode out"
    env = league.gym.MatchEnv("plain", rewards={"payoff": 1.0})
    env.reset()
    assert env.metadata["render_modes"] == [] and env.render() is None
    drawn = make("matrix", render_mode="rgb_array")
    drawn.reset(seed=1)
    assert drawn.render().shape == (540, 960, 3) and drawn.render().std() > 5


def test_drawn_game_refuses_other_modes(drawn_game: str) -> None:
    """A game that can be drawn names the modes that it has."""
    assert "can be drawn as rgb_array only" in refusal(
        lambda: league.gym.MatchEnv(drawn_game, render_mode="ansi", rewards={"win": 1.0})
    )


def test_game_without_bots_needs_an_opponent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no bot to default to, the opponent must be given."""

    def make_without_bots(**arguments: Any) -> Any:
        batch = matrix.make(**arguments)
        batch.spec = dataclasses.replace(batch.spec, bots=(), anchor=None, floor=None)
        return batch

    module = SimpleNamespace(Options=matrix.Options, spec=matrix.spec, make=make_without_bots)
    monkeypatch.setattr(registry, "_games", {**registry._games, "botless": module})
    arguments: dict[str, Any] = {"rewards": {"win": 1.0}}
    assert "has no bots; pass an agent or a function" in refusal(lambda: league.gym.MatchEnv("botless", **arguments))
    assert league.gym.MatchEnv("botless", lambda obs, mask: [0], **arguments).reset(seed=1)


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
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "sb3.py", "2048"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and "of 20 matches after 2048 steps" in done.stdout, done.stderr
