"""Plays one seat of a game with an exported agent. It needs numpy, and onnxruntime where `agent.onnx` is beside it.

from agent import LeagueAgent
agent = LeagueAgent(seed=1)
agent.reset()                            # a match begins
action = agent.act(observation, mask)    # a decision: (obs_size,) and (M,) give (A,)
agent.watch(observation)                 # in games in turns, after a decision of the other seat
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
Arrays = dict[str, Any]
MODEL, WEIGHTS, MANIFEST, NEXT = "agent.onnx", "weights.safetensors", "manifest.json", "next_"
TYPES = {"tensor(float)": "f4", "tensor(bool)": "?", "tensor(int16)": "i2", "tensor(int64)": "i8"}


class LeagueAgent:
    """One agent in one seat, remembering its match between calls. Raises ValueError for files not of one export.

    Args:
        folder: of the export.
        greedy: the likeliest action instead of a draw; seed: of the actions drawn.
        threads: of onnxruntime; numpy alone has one.
    """

    def __init__(self, folder: str | Path = HERE, *, greedy: bool = False, seed: int = 0, threads: int = 1) -> None:
        self.greedy, self.manifest = greedy, json.loads(Path(folder, MANIFEST).read_text(encoding="utf-8"))
        self._network = open_network(Path(folder), self.manifest, threads)
        self._leaves = leaves_of(self.manifest["spec"]["action"])
        self.reset(seed)

    def reset(self, seed: int | None = None) -> None:
        """Forgets the match; with `seed`, the actions drawn from here on are reproducible."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._inputs = {name: np.zeros(shape, kind) for name, (shape, kind) in self._network.inputs.items()}
        if "mask" in self._inputs:
            self._inputs["mask"][:] = -1 if "noise" in self._inputs else 1

    def act(self, observation: Any, mask: Any = None) -> Any:
        """The action (A,) for what this seat sees now, int64, or float32 where it has real numbers.

        observation: (obs_size,) finite numbers, as the game writes them; mask: (M,), what is legal; None: everything.
        Where one does not fit, ValueError is raised, and the memory is as it was.
        """
        inputs = self._inputs | {"obs": self._row("obs", observation)}
        if mask is not None and "mask" in inputs:
            inputs["mask"] = self._row("mask", mask)
        if "noise" in inputs and inputs["mask"][0, 0] < 0:
            raise ValueError("mask: must list a legal tuple at least; give the game's own")
        if "noise" in inputs and not self.greedy:
            inputs["noise"] = self._rng.gumbel(size=inputs["noise"].shape).astype("f4")
        outputs = self._network(inputs)
        action = outputs["action"][0] if "action" in outputs else self._choose(outputs, inputs.get("mask"))
        self._inputs |= {name: outputs[NEXT + name] for name in inputs if NEXT + name in outputs}
        return action

    def watch(self, observation: Any) -> None:
        """What this seat sees after a decision of the other seat, while it waits on; its encoder reads it."""
        inputs = self._inputs | {"obs": self._row("obs", observation)}
        if "count" in inputs:
            outputs = self._network(inputs)
            self._inputs |= {name: outputs[NEXT + name] for name in ("keys", "values", "count")}

    def _row(self, name: str, values: Any) -> Any:
        (_, *shape), kind = self._network.inputs[name]
        row = np.asarray(values)
        if row.shape != tuple(shape) or not np.isfinite(row).all():
            raise ValueError(f"{name}: must be {shape} finite numbers, got shape {list(row.shape)}")
        return row.astype(kind)[None]

    def _choose(self, outputs: Arrays, legal: Any) -> Any:
        """The action (A,) of outputs of one row; choices are drawn by the Gumbel-max trick."""
        rng, chosen, at, real = self._rng, list[Any](), 0, 0
        for leaf in self._leaves:
            if leaf["kind"] == "box":
                low, high = np.array(leaf["bounds"], "f4").T
                own = slice(real, real := real + len(low))
                noise = 0 if self.greedy else outputs["scale"][0, own] * rng.standard_normal(len(low))
                unit = (np.tanh(outputs["mean"][0, own] + noise) + 1) / 2
                chosen.append(np.clip(low + unit * (high - low), low, high))
            elif leaf["kind"] == "multi_binary":
                pressed = np.exp(outputs["log_probs"][0, at : (at := at + len(leaf["choices"]))])
                chosen.append(pressed > (0.5 if self.greedy else rng.random(pressed.shape)))
            else:
                for count in leaf["choices"]:
                    scores = outputs["log_probs"][0, at : (at := at + count)]
                    if not legal[0, at - count : at].any():
                        raise ValueError(f"mask: must allow one of {at - count} to {at - 1}; give the game's own")
                    chosen.append([np.argmax(scores if self.greedy else scores + rng.gumbel(size=count))])
        return np.concatenate(chosen).astype("f4" if real else "i8")


def open_network(folder: Path, manifest: Arrays, threads: int = 1) -> Any:
    """The network of an export: `inputs` has shape and type of each for one row; a call gives outputs by name."""
    if (folder / MODEL).exists():
        return OnnxNetwork((folder / MODEL).read_bytes(), manifest, threads)
    return NumpyNetwork((folder / WEIGHTS).read_bytes(), manifest)


class OnnxNetwork:
    """`agent.onnx` by onnxruntime."""

    def __init__(self, model: bytes, manifest: Arrays, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own classes, which have no common one
            raise ValueError(f"{MODEL} is no ONNX model ({str(error).splitlines()[0]}); export it again") from None
        named = self._session.get_modelmeta().custom_metadata_map
        for name, own in (("game_id", manifest["game"]["game_id"]), ("agent_id", manifest["agent_id"])):
            if name not in named:
                raise ValueError(f"{MODEL} was not written by league; run `league export AGENT OUT --format onnx`")
            if named[name] != own:
                both = f"{MODEL} has {named[name][:16]}, {MANIFEST} has {own[:16]}"
                raise ValueError(f"{name} differs: {both}; take both from one export")
        rows = {x.name: ([n if isinstance(n, int) else 1 for n in x.shape], x.type) for x in self._session.get_inputs()}
        self.inputs = {name: (shape, TYPES[kind]) for name, (shape, kind) in rows.items()}
        self._outputs = [x.name for x in self._session.get_outputs()]

    def __call__(self, inputs: Arrays) -> Arrays:
        """Outputs by name of inputs by name."""
        return dict(zip(self._outputs, self._session.run(self._outputs, inputs), strict=True))


class NumpyNetwork:
    """Linear layers, an LSTM, choices and keys in numpy; what else a network may have is in `agent.onnx` alone."""

    def __init__(self, data: bytes, manifest: Arrays) -> None:
        if hashlib.sha256(data).hexdigest() != manifest["agent_id"]:
            raise ValueError(f"{WEIGHTS} is not of the agent in {MANIFEST}; take both from one export")
        start = 8 + int.from_bytes(data[:8], "little")
        self._w = {
            name: np.frombuffer(data[start:][slice(*x["data_offsets"])], "<f4").reshape(x["shape"])
            for name, x in json.loads(data[8:start]).items()
        }
        self._sizes = sizes = manifest["architecture"]
        self._actor = [f"actor.{2 * layer}.{{}}" for layer in range(len(sizes["head_sizes"]) + 1)]
        self._leaves = leaves_of(sizes["action"])
        memory = [1, sizes["lstm_size"]], "f4"
        mask = [1, len(self._w[self._actor[-1].format("bias")])], "?"
        self.inputs = {"obs": ([1, sizes["obs_size"]], "f4"), "mask": mask, "hidden": memory, "cell": memory}

    def __call__(self, inputs: Arrays) -> Arrays:
        """Outputs by name of inputs by name."""
        x = self._observe(inputs["obs"])
        erf = np.array([math.erf(value) for value in x.ravel() / math.sqrt(2)], "f4").reshape(x.shape)
        x = x * (1 + erf) / 2  # GELU
        gates = self._linear("lstm.{}_ih_l0", x) + self._linear("lstm.{}_hh_l0", inputs["hidden"])
        put, keep, new, show = np.split(gates, 4, -1)
        put, keep, show = (np.tanh(gate / 2) / 2 + 0.5 for gate in (put, keep, show))  # sigmoids
        cell = keep * inputs["cell"] + put * np.tanh(new)
        hidden = show * np.tanh(cell)
        features = np.concatenate([hidden, x], -1) if self._sizes["skip_connection"] else hidden
        for layer in self._actor[:-1]:
            features = np.maximum(self._linear(layer, features), 0)
        logits = np.where(inputs["mask"], self._linear(self._actor[-1], features), np.float32(-1e9))
        found = list[Any]()
        for kind, choices in ((leaf["kind"], leaf["choices"]) for leaf in self._leaves):
            for count in [len(choices)] if kind == "multi_binary" else choices:
                own, logits = logits[:, :count], logits[:, count:]
                total = np.logaddexp(own, 0) if kind == "multi_binary" else np.logaddexp.reduce(own, -1, keepdims=True)
                found.append(own - total)
        return {"log_probs": np.concatenate(found, -1), NEXT + "hidden": hidden, NEXT + "cell": cell}

    def _linear(self, name: str, x: Any) -> Any:
        # numpy's own loops, since a BLAS may take all cores
        return np.einsum("nk,ok->no", x, self._w[name.format("weight")]) + self._w[name.format("bias")]

    def _observe(self, obs: Any) -> Any:
        if self._sizes["observation"] is None:
            return self._linear("observe.0.{}", obs)
        total = 0
        for i, part in enumerate(self._sizes["observation"]):
            low, high = part["bounds"] or (-1, 1)
            x = obs[:, part["start"] : part["start"] + math.prod(part["shape"])] * np.float32(2 / (high - low))
            total = total + self._linear(f"observe.0.parts.{i}.out.{{}}", x - np.float32((high + low) / (high - low)))
        return total


def leaves_of(action: Arrays) -> list[Arrays]:
    """The action's parts of one kind each, in their order."""
    return [action] if action["kind"] != "mixture" else [leaf for x in action["parts"] for leaf in leaves_of(x)]
