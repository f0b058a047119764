"""Exports an agent: a copy of its snapshot, its network for other runtimes, or a folder that a referee runs.

All but the copy are written by way of `league.policies.decision.Decision`, and played beside the network itself before
they take their place.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import os
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import torch

from league.errors import SnapshotError, UsageError, one_line, plain, quoted, remedy_of
from league.policies.actor_critic import ActorCritic
from league.policies.decision import NEXT, ROW_AXIS, Decision
from league.runtime.disk import sync, temporary_beside, write_synced
from league.snapshots import league_agent
from league.snapshots.agent import load_fit, load_policy
from league.snapshots.files import MANIFEST, MODEL, PROGRAM, WEIGHTS
from league.snapshots.io import save
from league.snapshots.manifest import About, Manifest
from league.types import ActionSpec
from league.types.spaces import LARGE

if TYPE_CHECKING:
    import onnx_ir

Format = Literal["folder", "onnx", "torch", "submission", "page"]
Quantize = Literal["int8", "bf16"]
OPSET = 20
"""Of ONNX; onnxruntime reads it from 1.17 on."""
MOST_APART = 1e-4
"""Nats between log-probabilities of the network and of its export."""
LEAST_LIKELY = -1e8
"""Log-probabilities below are those of illegal choices, about -1e9, where float32 tells no nats apart."""
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
REQUIREMENTS = {MODEL: "numpy>=1.26\nonnxruntime>=1.17\n", WEIGHTS: "numpy>=1.26\n"}


def export(
    snapshot: Path,
    out: Path,
    format: Format = "folder",
    quantize: Quantize | None = None,
    say: Callable[[str], None] | None = None,
    beside: Callable[[Manifest], Mapping[str, bytes]] = lambda manifest: {},
) -> Manifest:
    """Writes the verified snapshot in `snapshot` to the new folder `out`; returns its manifest.

    Args:
        snapshot: its folder.
        out: new; of a submission it may end in `.zip`.
        format: `folder`: weights and manifest. `onnx`, `torch`: the manifest beside `agent.onnx` or `agent.pt2`, which
            are a `Decision`. `submission`: the manifest and `agent.py`, which runs without torch and league, with the
            weights for numpy alone or `agent.onnx`. `page`: manifest and `agent.onnx` in a page of `beside`.
        quantize: `int8`: weights of matrix products in `agent.onnx` as 8 bits. `bf16`: all weights in 16 bits, which
            become float32 where onnxruntime loads them, since its CPU has no products of bf16.
        say: receives how far the export's log-probabilities are from the network's.
        beside: gives what else a submission or page has: name of a file -> content.

    Raises:
        UsageError: an unknown format, one that cannot be quantized, or a package is missing.
        SnapshotError: the snapshot is missing or damaged, `out` is there already, the network is a custom one, or the
            export does not play as it does.
    """
    _check_call(out, format, quantize)
    if format == "folder":
        return _copy(snapshot, out)
    if os.path.lexists(out):
        raise SnapshotError(f"{out} is there already; an export as {format} needs a new place: name another")
    manifest, _ = load_fit(snapshot)
    if (own := manifest.own_policy) is not None:
        raise SnapshotError(
            f"format={format}: the network is a custom policy, {plain(one_line(own.policy))}, which only torch can run;"
            f" export it with --format folder"
        )
    more = beside(manifest) if format in ("submission", "page") else {}
    _, policy = load_policy(snapshot)
    decision = Decision(cast(ActorCritic, policy)).eval()
    temporary = temporary_beside(out)
    try:
        temporary.mkdir(parents=True)
        (temporary / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        try:
            run = _write(temporary, snapshot, manifest, decision, format, quantize)
        except (RuntimeError, ValueError) as error:
            raise SnapshotError(
                f"format={format}: torch cannot export this network ({one_line(str(error).splitlines()[0])}); export it"
                f" with --format folder"
            ) from error
        for name, data in more.items():
            (temporary / name).write_bytes(data)
        apart = difference(decision, run)
        most = np.finfo(np.float32).max if quantize else MOST_APART
        if not apart <= most:
            raise SnapshotError(
                f"{out}: its log-probabilities are {apart:.1e} from the network's, more than {most:.0e}, so it is not"
                f" written; take another snapshot, or --format folder"
            )
        if say is not None:
            say(f"log-probabilities within {apart:.1e} of the network's")
        _place(temporary, out)
    except OSError as error:
        raise SnapshotError(f"cannot write {out}: {error.strerror or error}; {remedy_of(error)}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return manifest


def difference(decision: Decision, run: Callable[[dict[str, Any]], dict[str, Any]]) -> float:
    """How far `run`, of NumPy's arrays by name, is at most from the network's own step, each with its own memory.

    Matches of one row and of three, longer than the opponent's history, of random observations and masks.
    """
    sizes, rng, worst = decision.policy.architecture, np.random.default_rng(0), 0.0
    num_steps = 8 + min(200, sizes.history_tokens if sizes.opponent_encoder else 8)
    for num_rows in (1, 3):
        ours = decision.initial_inputs(num_rows)
        theirs = {name: x.numpy() for name, x in ours.items()}
        for _ in range(num_steps):
            seen = _random_inputs(decision, num_rows, rng)
            wanted = decision.by_step(ours | {name: torch.from_numpy(x) for name, x in seen.items()})
            found = run(theirs | seen)
            said = [name for name in wanted if not name.startswith(NEXT)]
            pairs = [(np.maximum(x, LEAST_LIKELY) for x in (wanted[name].numpy(), found[name])) for name in said]
            worst = float(np.max([worst, *(np.abs(x - y).max() for x, y in pairs)]))  # NaN is the greatest
            ours |= {name.removeprefix(NEXT): x for name, x in wanted.items() if name.startswith(NEXT)}
            theirs |= {name.removeprefix(NEXT): x for name, x in found.items() if name.startswith(NEXT)}
    return worst


def _check_call(out: Path, format: str, quantize: str | None) -> None:
    known = get_args(Format)
    if format not in known:
        raise UsageError(f"format={quoted(format)} must be one of {', '.join(known)}; pass another --format")
    if quantize not in (None, *get_args(Quantize)):
        raise UsageError(f"quantize={quoted(str(quantize))} must be int8 or bf16; leave it out for float32")
    if quantize and format not in ("onnx", "submission"):
        raise UsageError(f"quantize={quantize}: format={format} has no such form; pass --format onnx or submission")
    if out.suffix == ".zip" and format != "submission":
        raise UsageError(f"{out}: only a submission is a zip; name a folder, or pass --format submission")


def _copy(snapshot: Path, out: Path) -> Manifest:
    manifest, tensors = load_fit(snapshot)
    if os.path.lexists(out) and not (out / MANIFEST).is_file():
        kind = "a folder that holds something else" if out.is_dir() else "there already and no folder"
        raise SnapshotError(f"{out} is {kind}; an export needs a new folder: name another")
    about = About(**{name: getattr(manifest, name) for name in About.model_fields})
    return save(out, tensors, about)


def _write(
    folder: Path, snapshot: Path, manifest: Manifest, decision: Decision, format: Format, quantize: str | None
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Writes all but the manifest; returns the network as it then lies there."""
    if format == "torch":
        program = _program(decision)
        torch.export.save(program, folder / PROGRAM)
        module = program.module()

        def run(inputs: dict[str, Any]) -> dict[str, Any]:
            outputs = module({name: torch.from_numpy(x) for name, x in inputs.items()})
            return {name: x.numpy() for name, x in outputs.items()}

        return run
    model = WEIGHTS if format == "submission" and not quantize and _is_numpys(decision) else MODEL
    if model == WEIGHTS:
        shutil.copyfile(snapshot / WEIGHTS, folder / WEIGHTS)
    else:
        _write_onnx(folder / MODEL, manifest, decision, quantize)
    if format == "submission":
        shutil.copyfile(league_agent.__file__, folder / "agent.py")
        (folder / "requirements.txt").write_text(REQUIREMENTS[model])
    network = league_agent.open_network(folder, manifest.model_dump(mode="json"))
    return cast(Callable[[dict[str, Any]], dict[str, Any]], network)


def _is_numpys(decision: Decision) -> bool:
    """Whether `league_agent.NumpyNetwork` plays it."""
    sizes = decision.policy.architecture
    parts = decision.policy.architecture.parts or ()
    is_plain = sizes.torso == "mlp" and not (sizes.opponent_encoder or sizes.unbounded)
    kinds = {leaf.kind for leaf in sizes.action.leaves}
    return is_plain and all(part.kind == "numbers" for part in parts) and not kinds & {"box", "legal_tuples"}


def _write_onnx(path: Path, manifest: Manifest, decision: Decision, quantize: str | None) -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"an export with {MODEL} needs {' and '.join(missing)}; run pip install 'league-engine[onnx]'")
    inputs = decision.initial_inputs(1)
    with _quiet():
        program = torch.onnx.export(
            _program(decision),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=_axes(inputs),  # names the axis
            input_names=list(inputs),
            output_names=list(decision(inputs)),
            verbose=False,
        )
        assert program is not None
        about = manifest.model_dump(include={"run", "step", "fingerprint", "agent_id", "league_version"})
        named = {**about, "game": manifest.game.name, "game_id": manifest.game.game_id}
        program.model.metadata_props.update({name: str(value) for name, value in named.items()})
        if quantize == "bf16":
            _store_as_bf16(program.model)
        program.save(path, external_data=False)
        if quantize == "int8":
            from onnxruntime.quantization import QuantType, quantize_dynamic

            quantize_dynamic(path, path, weight_type=QuantType.QInt8)


def _store_as_bf16(model: onnx_ir.Model) -> None:
    """Rounds the float32 weights of an ONNX model to bf16, each with a `Cast` to float32 behind it."""
    import ml_dtypes  # comes with onnx_ir, which few exports need
    import onnx_ir

    casts = []
    for weight in model.graph.initializers.values():
        if weight.dtype == onnx_ir.DataType.FLOAT:
            assert weight.const_value is not None
            loaded = onnx_ir.Value(
                name=f"{weight.name}.float32", shape=weight.shape, type=onnx_ir.TensorType(weight.dtype)
            )
            weight.replace_all_uses_with(loaded)
            weight.const_value = onnx_ir.tensor(weight.const_value.numpy().astype(ml_dtypes.bfloat16), name=weight.name)
            weight.dtype = weight.const_value.dtype
            casts.append(onnx_ir.node("Cast", [weight], {"to": onnx_ir.DataType.FLOAT}, outputs=[loaded]))
    model.graph.insert_before(model.graph[0], casts)


def _program(decision: Decision) -> torch.export.ExportedProgram:
    """The decision for any number of rows."""
    inputs = decision.initial_inputs(2)  # of one row torch would make a rule
    with _quiet(), torch.no_grad():
        decision(inputs)  # what layers keep for a device must not be made while the export looks on
        return torch.export.export(decision, (inputs,), dynamic_shapes=_axes(inputs))


def _axes(inputs: dict[str, torch.Tensor]) -> tuple[dict[str, dict[int, Any]]]:
    """Which axis of each input is of any length, as exporters take it."""
    rows = torch.export.Dim("rows", min=1)
    return ({name: {ROW_AXIS.get(name, 0): rows} for name in inputs},)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters log and warn of, which is of no use to a user."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _random_inputs(decision: Decision, num_rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Observations within a game's bounds, and masks under which something is legal in each part."""
    sizes = decision.policy.architecture
    obs = rng.uniform(-1, 1, (num_rows, sizes.obs_size)).astype(np.float32)
    for part in sizes.observation or ():
        shape = num_rows, part.size
        if part.kind == "tokens":
            obs[:, part.start : part.stop] = rng.integers(part.count, size=shape)
        elif part.bounds is not None:
            low, high = np.clip(part.bounds, -LARGE, LARGE)
            obs[:, part.start : part.stop] = rng.uniform(low, high, shape)
    for start, stop in sizes.unbounded:
        obs[:, start:stop] *= LARGE
    seen: dict[str, Any] = {"obs": obs}
    if sizes.action.mask_size:
        seen["mask"] = _random_mask(sizes.action, num_rows, rng)
    if sizes.action.kind == "legal_tuples":
        # So large that it alone chooses: where two parts are almost as likely, rounding must not.
        seen["noise"] = rng.normal(0, 1e4, (num_rows, sizes.action.num_logits)).astype(np.float32)
    return seen


def _random_mask(action: ActionSpec, num_rows: int, rng: np.random.Generator) -> Any:
    if action.kind == "legal_tuples":
        tuples = rng.integers(action.choices, size=(num_rows, action.max_tuples, len(action.choices)))
        tuples[:, rng.integers(1, action.max_tuples + 1) :] = -1
        return tuples.reshape(num_rows, -1).astype(np.int16)
    mask = rng.random((num_rows, action.mask_size)) < 0.5
    at = 0
    for leaf in action.leaves:
        for part in leaf.split(mask[:, at : at + leaf.mask_size]) if leaf.mask_size else ():
            part[:, rng.integers(part.shape[1])] = True
        at += leaf.mask_size
    return mask


def _place(folder: Path, out: Path) -> None:
    """Renames a written folder, or a zip of it, to its place."""
    source = folder
    if out.suffix == ".zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.iterdir()):
                archive.write(path, path.name)
        source = folder / "zip"
        write_synced(source, buffer.getvalue())
    for path in sorted(folder.iterdir()):
        sync(path)
    os.rename(source, out)
    sync(out.parent)
