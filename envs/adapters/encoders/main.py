"""Kaggle's agent: what league exported plays the environment, by way of the encoder beside it."""

import importlib.util
import os
from typing import Any

ENCODER = "Encoder"
GREEDY = False
"""Whether it plays its likeliest action instead of a draw."""
HERE = os.path.dirname(os.path.abspath((lambda: 0).__code__.co_filename))
"""Kaggle runs this file without a `__file__`."""
now: Any = None
"""What plays the match."""


class EncodedAgent:
    """The agent in one match."""

    def __init__(self, configuration: Any) -> None:
        self.agent = _loaded("agent").LeagueAgent(HERE, greedy=GREEDY, seed=int.from_bytes(os.urandom(4), "little"))
        self.encoder = getattr(_loaded("encoder"), ENCODER)(configuration)
        action = self.encoder.action
        self.sizes = list(action) if isinstance(action, tuple | list) else [action]
        self.step = -1

    def act(self, observation: Any) -> Any:
        """The action as the environment takes it."""
        self.step = observation["step"]
        mask = None
        if hasattr(self.encoder, "legal"):
            legal = self.encoder.legal(observation)
            parts = legal if len(self.sizes) > 1 else [legal]
            mask = [choice in part for size, part in zip(self.sizes, parts, strict=True) for choice in range(size)]
        chosen = [int(x) for x in self.agent.act(_flat(self.encoder.encode(observation)), mask)]
        return self.encoder.decode(tuple(chosen) if len(chosen) > 1 else chosen[0], observation)


def _flat(seen: Any) -> Any:
    import numpy

    return numpy.asarray(seen, "f4").ravel()


def _loaded(name: str) -> Any:
    """A module that lies beside this file, apart from those of other submissions in one process."""
    spec: Any = importlib.util.spec_from_file_location(f"{name}_of_{HERE}", os.path.join(HERE, f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def agent(observation: Any, configuration: Any) -> Any:
    """The action; a match begins where the steps do not go on."""
    global now
    if now is None or observation["step"] <= now.step:
        now = EncodedAgent(configuration)
    return now.act(observation)
