"""Plays a file of another kind by the protocol of programs (docs/guides/programs.md), in a process of its own: a
main.py of Kaggle's form, a model of stable-baselines3, an export of league, a submission."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import random
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from league.runtime import sandbox

PROTOCOL = 1
CLASSES = ("Agent", "LeagueAgent")
"""What the class of an agent.py is called."""


Act = Callable[[list[float], list[int]], Any]
"""(obs, mask) -> an action, as a number or numbers."""
Watch = Callable[[list[float]], object]
Opened = Callable[[int], tuple[Act, Watch | None]]
"""What decides in a match of that seed, and what looks on while it waits."""


def main() -> None:
    """Plays what `sys.argv` names until stdin ends: a scheme, a path, and words: `apart`, it is shut in, and
    `one`, one agent plays all matches.

    What code prints goes to stderr.
    """
    scheme, path, *words = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    if "apart" in words:
        sandbox.enter([path if os.path.isdir(path) else os.path.dirname(path)])
    make, players, counts = None, dict[int, Any](), dict[int, list[int]]()
    for line in sys.stdin:
        message = json.loads(line)
        if "start" in message:
            make = OPEN[scheme](path, {**message, "is_one": "one" in words})
            say: dict[str, Any] = {"ready": PROTOCOL, "watch": scheme in ("export", "submission")}
        elif "reset" in message:
            assert make is not None, "start comes first"
            row, seed = message["reset"], message["seed"]
            _seed(seed, 0)
            players[row], counts[row] = make(seed), [seed, 0]
            continue
        elif "watch" in message:
            players[message["watch"]][1](message["obs"])
            continue
        else:
            row = message["act"]
            counts[row][1] += 1
            _seed(*counts[row])
            action = players[row][0](message["obs"], message["mask"])
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


def open_kaggle(path: str, game: Mapping[str, Any]) -> Opened:
    """A main.py in the form of Kaggle; its globals are a match's own."""
    sys.path.insert(0, os.path.dirname(path))
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    configuration = Struct(actTimeout=game["seconds"], game=game["game"], action=Struct(game["action"]))

    def make(seed: int) -> tuple[Act, None]:
        space: dict[str, Any] = {"__name__": "main", "__file__": path}
        exec(code, space)  # noqa: S102  # this user has named the file
        own = [x for x in space.values() if inspect.isfunction(x) and x.__code__.co_filename == path]
        if not own:
            sys.exit(f"{path} defines no function; end it with agent(observation, configuration)")
        agent, steps, takes = own[-1], count(), own[-1].__code__.co_argcount

        def act(obs: list[float], mask: list[int]) -> Any:
            return agent(*(Struct(obs=obs, mask=mask, step=next(steps)), configuration)[:takes])

        return act, None

    make(0)
    return make


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
        own = f"{path} observes {space.shape}"
        sys.exit(f"{own}, and {game['game']} shows {game['obs_size']} numbers; train it on these")
    more = {"use_sde": data["use_sde"]} if data.get("use_sde") else {}
    policy = data["policy_class"](space, data["action_space"], lambda _: 0.0, **more, **given)
    policy.load_state_dict(tensors["policy"])
    policy.set_training_mode(False)
    takes_masks = "action_masks" in inspect.signature(policy.predict).parameters

    def make(seed: int) -> tuple[Act, None]:
        state, is_first = None, True

        def act(obs: list[float], mask: list[int]) -> Any:
            nonlocal state, is_first
            more = {"action_masks": np.array(mask, np.bool_)} if takes_masks else {}
            seen, begins = np.array(obs, space.dtype).reshape(space.shape), np.array([is_first])
            action, state = policy.predict(seen, state=state, episode_start=begins, deterministic=True, **more)
            is_first = False
            return action

        return act, None

    return make


def open_export(path: str, game: Mapping[str, Any]) -> Opened:
    """A folder of `league export --format onnx` or `submission`, which samples its actions; no code in it runs."""
    from league.snapshots.league_agent import LeagueAgent

    try:
        name = LeagueAgent(path).manifest["game"]["name"]
    except (OSError, ValueError, KeyError, ImportError) as error:
        sys.exit(f"{path} is no export of --format onnx or submission that can be read here ({error})")
    if name != game["game"]:
        sys.exit(f"{path} plays {name}, not {game['game']}; name an agent of this game")

    def make(seed: int) -> tuple[Act, Watch]:
        agent = LeagueAgent(path, seed=seed)
        return lambda obs, mask: agent.act(obs, mask or None), agent.watch

    return make


def open_submission(path: str, game: Mapping[str, Any]) -> Opened:
    """A folder with an agent.py or a main.py. A match has an agent of its own, or one plays all."""
    if not os.path.exists(file := os.path.join(path, "agent.py")):
        return open_kaggle(os.path.join(path, "main.py"), game)
    sys.path.insert(0, path)
    spec = importlib.util.spec_from_file_location("agent", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules["agent"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = [module.__dict__[name] for name in CLASSES if isinstance(module.__dict__.get(name), type)]
    if not made or not all(callable(getattr(made[0], method, None)) for method in ("reset", "act")):
        sys.exit(f"agent.py has no class {' or '.join(CLASSES)} with reset() and act(observation, mask)")
    only = made[0]()
    takes_seed = "seed" in inspect.signature(only.reset).parameters
    takes = len(inspect.signature(only.act).parameters)

    def make(seed: int) -> tuple[Act, Watch]:
        agent = only if game["is_one"] else made[0]()
        agent.reset(**({"seed": seed} if takes_seed else {}))
        return lambda obs, mask: agent.act(*(obs, mask or None)[:takes]), getattr(agent, "watch", lambda obs: None)

    return make


OPEN: dict[str, Callable[[str, Mapping[str, Any]], Opened]] = {
    "kaggle": open_kaggle,
    "sb3": open_sb3,
    "export": open_export,
    "submission": open_submission,
}
