"""Plays a file of another kind by the protocol of programs (docs/guides/programs.md), in a process of its own: a
main.py of Kaggle's form, a model of stable-baselines3, an export of league."""

from __future__ import annotations

import inspect
import json
import os
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

PROTOCOL = 1


class MatchPlayer(Protocol):
    """Plays one match."""

    def act(self, obs: list[float], mask: list[int]) -> Any:
        """An action, as a number or numbers."""


Opened = Callable[[int], Any]
"""Makes a player of a match's seed."""


def main() -> None:
    """Plays what `sys.argv` names, a scheme and a path, until stdin ends. What code prints goes to stderr."""
    scheme, path = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    make, players, counts = None, dict[int, Any](), dict[int, list[int]]()
    for line in sys.stdin:
        message = json.loads(line)
        if "start" in message:
            make = OPEN[scheme](path, message)
            say: dict[str, Any] = {"ready": PROTOCOL, "watch": scheme == "export"}
        elif "reset" in message:
            assert make is not None, "start comes first"
            row, seed = message["reset"], message["seed"]
            _seed(seed, 0)
            players[row], counts[row] = make(seed), [seed, 0]
            continue
        elif "watch" in message:
            players[message["watch"]].watch(message["obs"])
            continue
        else:
            row = message["act"]
            counts[row][1] += 1
            _seed(*counts[row])
            action = players[row].act(message["obs"], message["mask"])
            say = {"act": row, "action": np.asarray(action).ravel().tolist()}
        answers.write(json.dumps(say) + "\n")


def _seed(seed: int, count: int) -> None:
    """The global generators depend on the match and the decision alone, not on what else this process plays."""
    mixed = int(np.random.SeedSequence([seed, count]).generate_state(1)[0])
    random.seed(mixed)
    np.random.seed(mixed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(mixed)


class Struct(dict[str, Any]):
    """A dict whose keys are attributes, too, as in Kaggle."""

    __getattr__ = dict.__getitem__


class KaggleAgent:
    """The last function of a main.py, in a namespace of its own."""

    def __init__(self, code: Any, path: str, game: Mapping[str, Any]) -> None:
        space: dict[str, Any] = {"__name__": "main", "__file__": path}
        exec(code, space)  # noqa: S102  # this user has named the file
        own = [x for x in space.values() if inspect.isfunction(x) and x.__code__.co_filename == path]
        if not own:
            sys.exit(f"{path} defines no function; end it with agent(observation, configuration)")
        self._agent, self._step = own[-1], 0
        self._count = self._agent.__code__.co_argcount
        self._configuration = Struct(actTimeout=game["seconds"], game=game["game"], action=Struct(game["action"]))

    def act(self, obs: list[float], mask: list[int]) -> Any:
        """See `MatchPlayer.act`."""
        observation = Struct(obs=obs, mask=mask, step=self._step)
        self._step += 1
        return self._agent(*(observation, self._configuration)[: self._count])


def open_kaggle(path: str, game: Mapping[str, Any]) -> Opened:
    """A main.py in the form of Kaggle; its globals are a match's own."""
    sys.path.insert(0, os.path.dirname(path))
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    KaggleAgent(code, path, game)
    return lambda seed: KaggleAgent(code, path, game)


class Sb3Agent:
    """A policy of stable-baselines3 that plays its likeliest action."""

    def __init__(self, policy: Any) -> None:
        self._policy, self._state, self._is_first = policy, None, True
        self._takes_masks = "action_masks" in inspect.signature(policy.predict).parameters

    def act(self, obs: list[float], mask: list[int]) -> Any:
        """See `MatchPlayer.act`."""
        space = self._policy.observation_space
        seen = np.array(obs, space.dtype).reshape(space.shape)
        given: dict[str, Any] = {"state": self._state, "deterministic": True}
        if self._takes_masks:
            given["action_masks"] = np.array(mask, np.bool_)
        else:
            given["episode_start"] = np.array([self._is_first])
        action, self._state = self._policy.predict(seen, **given)
        self._is_first = False
        return action


def open_sb3(path: str, game: Mapping[str, Any]) -> Opened:
    """A model of stable-baselines3: its spaces and class are pickled in the zip, its tensors are read as weights."""
    try:
        from stable_baselines3.common.save_util import load_from_zip_file
    except ImportError:
        sys.exit("stable-baselines3 is not installed; pip install 'league-engine[sb3]'")
    import torch

    torch.set_num_threads(1)
    data, tensors, _ = load_from_zip_file(path, device="cpu")
    if data is None or "policy" not in tensors:
        sys.exit(f"{path} has no policy; save it by model.save()")
    space, given = data["observation_space"], data.get("policy_kwargs") or {}
    if int(np.prod(space.shape)) != game["obs_size"]:
        sys.exit(
            f"{path} observes {space.shape}, and {game['game']} shows {game['obs_size']} numbers; train it on that"
        )
    more = {"use_sde": data["use_sde"]} if data.get("use_sde") else {}
    policy = data["policy_class"](space, data["action_space"], lambda _: 0.0, **more, **given)
    policy.load_state_dict(tensors["policy"])
    policy.set_training_mode(False)
    return lambda seed: Sb3Agent(policy)


class ExportAgent:
    """An exported agent that samples its actions, as in training."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def act(self, obs: list[float], mask: list[int]) -> Any:
        """See `MatchPlayer.act`."""
        return self._agent.act(obs, mask or None)

    def watch(self, obs: list[float]) -> None:
        """See `LeagueAgent.watch`."""
        self._agent.watch(obs)


def open_export(path: str, game: Mapping[str, Any]) -> Opened:
    """A folder of `league export --format onnx` or `submission`; no code in it runs."""
    from league.snapshots.league_agent import LeagueAgent

    try:
        first = LeagueAgent(path)
    except (OSError, ValueError, KeyError, ImportError) as error:
        sys.exit(f"{path} is no export of --format onnx or submission that can be read here ({error})")
    name = first.manifest["game"]["name"]
    if name != game["game"]:
        sys.exit(f"{path} plays {name}, not {game['game']}; name an agent of this game")
    return lambda seed: ExportAgent(LeagueAgent(path, seed=seed))


OPEN: dict[str, Callable[[str, Mapping[str, Any]], Opened]] = {
    "kaggle": open_kaggle,
    "sb3": open_sb3,
    "export": open_export,
}
