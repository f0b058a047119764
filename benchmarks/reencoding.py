"""Learning by encoding each frame once, beside encoding its window: `python -m benchmarks.reencoding` at the root.

Both forms are trained at one small size by the league's own loop, at equal steps, settings, seeds and first weights.
Each final agent then meets four bots, and the two forms of a seed meet each other. `streaming` is the library's agent.
`re-encoding` is what the project's predecessors did: at every step, in play and for every sample of every epoch, a
Transformer in which each token of the last H sees all the others encodes that window from the raw tokens. The rest of
the network, the layers' code included, is the same. Scores are of `--games` games with Wilson's 95 % interval; seconds
are the process's on the CPU, in play and learning, evaluation left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import league
from league.config.models import AgentConfig
from league.play.summaries import Summary
from league.policies.actor_critic import ActorCritic, ActorCriticState, Architecture
from league.policies.kernels.attention import attend, rotated, turning
from league.policies.opponent_encoder import OpponentEncoder
from league.training.run import Callback, Report, Start
from league.types import BOT_PREFIX, GameSpec

STAGE = "test50k"
SETTINGS = [
    "agent.encoder_layers=2",
    "agent.encoder_heads=4",
    "agent.encoder_width=64",
    "agent.encoder_feedforward=128",
    "agent.observation_width=64",
    "agent.lstm_size=128",
    "agent.head_sizes=[64, 64]",
    "env.threads=1",
    "learner.device=cpu",
    "run.evaluate_every=0",
    "run.evaluate_games=2",  # the loop's own, after the last update; those compared here come afterwards
    "run.anchor_games=0",
    "run.ladder_share=0.0",
    "run.allow_short=true",
]
BOTS = ("bot:based", "bot:random", "bot:constant", "bot:rusher")


@dataclass
class Window:
    """The last H raw tokens of N rows; token i of a match lies in slot i mod H.

    tokens: (N, H, token_size). count: (N,) int64, tokens of the match so far; older content of a slot is never seen.
    """

    tokens: Tensor
    count: Tensor

    def oldest_first(self, rows: Tensor | None) -> Tensor:
        """The tokens of `rows` (None: of all) in the order of the match, (n, H, token_size); the newest is the last."""
        tokens, count = (self.tokens, self.count) if rows is None else (self.tokens[rows], self.count[rows])
        history = tokens.shape[1]
        slots = (count[:, None] + torch.arange(history, device=count.device)) % history
        return tokens.gather(1, slots[..., None].expand_as(tokens))


class WindowState(ActorCriticState):
    """As `ActorCriticState`, the memory being a `Window`."""

    memory: Window

    def tensors(self) -> dict[str, Tensor]:
        """See `league.types.PolicyState`."""
        return {"hidden": self.hidden, "cell": self.cell, "tokens": self.memory.tokens, "count": self.memory.count}

    def select(self, rows: Tensor | None) -> WindowState:
        """See `league.types.PolicyState`."""
        return self._of({name: x.clone() if rows is None else x[rows] for name, x in self.tensors().items()})

    def join(self, others: Sequence[WindowState]) -> WindowState:
        """See `league.types.PolicyState`."""
        return self._of(
            {name: torch.cat([x, *(o.tensors()[name] for o in others)]) for name, x in self.tensors().items()}
        )

    @staticmethod
    def _of(tensors: dict[str, Tensor]) -> WindowState:
        return WindowState(tensors["hidden"], tensors["cell"], Window(tensors["tokens"], tensors["count"]))


class WindowEncoder(nn.Module):
    """The layers of an `OpponentEncoder`, over a whole window at once and with no order in time between its tokens."""

    def __init__(self, parts: OpponentEncoder, token_size: int) -> None:
        super().__init__()
        self.parts, self.token_size = parts, token_size

    def initial_memory(self, num_rows: int) -> Window:
        """An empty window for `num_rows` rows."""
        like = self.parts.queries
        tokens = like.new_zeros(num_rows, self.parts.history, self.token_size)
        return Window(tokens, torch.zeros(num_rows, dtype=torch.int64, device=like.device))

    def step(self, token: Tensor, window: Window, rows: Tensor | None) -> Tensor:
        """Latents (n, latents, width) after one token (n, token_size) a row, which is written into the window."""
        places = torch.arange(len(token), device=token.device) if rows is None else rows
        count = window.count[places]
        window.tokens[places, count % self.parts.history] = token
        window.count[places] = count + 1
        return self.encode(window.oldest_first(rows), count)

    def sequence(self, tokens: Tensor, window: Window, is_first: Tensor) -> Tensor:
        """Latents (B, T, latents, width) of a segment (B, T, token_size) after `window`: each step's window again."""
        time = torch.arange(is_first.shape[1], device=is_first.device)
        began = torch.where(is_first, time, -1).cummax(1).values  # last match start at or before t; -1: in the window
        place = torch.where(began >= 0, time - began, window.count[:, None] + time)
        windows = torch.cat([window.oldest_first(None), tokens], 1).unfold(1, self.parts.history, 1)[:, 1:]
        latents = self.encode(windows.transpose(2, 3).flatten(0, 1), place.flatten())
        return latents.unflatten(0, is_first.shape)

    def encode(self, tokens: Tensor, place: Tensor) -> Tensor:
        """Latents (n, latents, width) of windows (n, H, token_size), oldest first, whose newest token is its match's
        number `place` (n,), counted from 0: of what lies before the match nothing is seen.
        """
        return self.parts.encode(tokens, WholeWindow(place, tokens.shape[1], self.parts))


class WholeWindow:
    """What the tokens of windows of H tokens look at (see `league.policies.opponent_encoder.Past`): all of the window.

    Positions are places in the window; the latents' queries ask from its end.
    """

    def __init__(self, place: Tensor, history: int, parts: OpponentEncoder) -> None:
        position = torch.arange(history, device=place.device)
        self._heads = parts.heads
        self._seen = (history - 1 - position <= place[:, None])[:, None]  # (n, 1, H), the same for every query
        self._rotation = turning(position, parts.width // parts.heads, parts.queries.dtype)

    def attend(self, layer: int, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """What the tokens' queries (n, H, 1, width), or `queries` (Q, width) for all windows, find in their window.

        tokens: (n, H, 3 width), or with `queries` (n, H, 2 width), as of `Past.attend`.
        """
        query, both = rotated(tokens, queries, self._rotation, self._heads)
        keys, values = both.unbind(-3)
        if queries is None:
            return attend(query.squeeze(2), keys, values, self._seen)[:, :, None]
        last = query[-1]  # rotated to each index of the window, of which they ask from the last
        return attend(last.expand(len(keys), -1, -1, -1), keys, values, self._seen)


class ReencodingActorCritic(ActorCritic):
    """`ActorCritic` with the same first weights that encodes the window of the last H tokens again at every step."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__(architecture)
        start, stop = architecture.opponent_slice
        self.encoder = WindowEncoder(self.encoder, stop - start)

    def initial_state(self, num_rows: int) -> WindowState:
        """See `Policy.initial_state`."""
        state = super().initial_state(num_rows)
        return WindowState(state.hidden, state.cell, state.memory)


class StreamingActorCritic(ActorCritic):
    """The library's network, whose frozen nets play one by one, as those of the other form must."""


FORMS = {"streaming": StreamingActorCritic, "re-encoding": ReencodingActorCritic}


def network(form: str, spec: GameSpec, agent: AgentConfig) -> ActorCritic:
    """The network of a form, as `--policy` makes one."""
    sizes = agent.model_dump(exclude={"policy"})
    history = -(-sizes.pop("history_frames") // spec.ticks_per_step)
    return FORMS[form](Architecture.of(spec, history_tokens=history, **sizes))


class Stopwatch(Callback):
    """Says on stderr how training goes, and keeps how long it took up to its last update."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds = self._started = 0.0
        self.steps = 0

    def began(self, start: Start) -> None:
        """From here on it counts."""
        self._started = time.process_time()

    def report(self, report: Report) -> None:
        """After every update."""
        self.seconds, self.steps = time.process_time() - self._started, report.steps
        scores = ", ".join(f"{group} {rate:.0%}" for group, rate in report.win_rates.items())
        say(f"{self.name}: {report.steps:,} steps, {self.seconds:,.0f} s, {scores}")


def say(message: str) -> None:
    """One line on stderr, at once."""
    print(message, file=sys.stderr, flush=True)


def compare(seeds: Sequence[int], steps: int, games: int, overrides: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Trains both forms on each seed and lets them play: a row a form and seed, then one a seed of the direct match."""
    sets = [*SETTINGS, f"run.total_steps={steps}", *overrides]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as store:
        for seed in seeds:
            names = [f"{form}-{seed}" for form in FORMS]
            for form, name in zip(FORMS, names, strict=True):
                watch, policy = Stopwatch(name), {form: partial(network, form)}
                call = {"env": "brawl", "run": name, "seed": seed, "policy": policy, "callback": watch}
                league.train(STAGE, overrides=sets, fresh=True, store=store, **call)
                met = {bot: league.evaluate(name, bot, games, seed=seed, device="cpu", store=store) for bot in BOTS}
                scores = {bot: figures(found.summary) for bot, found in met.items()}
                took = {"steps": watch.steps, "seconds": watch.seconds, "rate": watch.steps / watch.seconds}
                rows.append({"form": form, "seed": seed, **took, "scores": scores})
                say(json.dumps(rows[-1]))
            direct = league.evaluate(*names, games, seed=seed, device="cpu", store=store).summary
            a, b = FORMS
            rows.append({"form": a, "seed": seed, "scores": {b: figures(direct)}})
            say(json.dumps(rows[-1]))
    return rows


def figures(summary: Summary) -> dict[str, Any]:
    """The part of a summary that is compared."""
    kept = ("games", "wins", "draws", "losses", "score", "lower", "upper")
    return {name: value for name, value in asdict(summary).items() if name in kept}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: each form and seed against the bots with its form's means, then the direct matches."""

    def cell(score: dict[str, Any]) -> str:
        return f"{100 * score['score']:.0f} % [{100 * score['lower']:.0f}, {100 * score['upper']:.0f}]"

    lines = [
        f"| form | seed | {' | '.join(bot.removeprefix(BOT_PREFIX) for bot in BOTS)} | CPU seconds | steps/s |",
        "|---" * (len(BOTS) + 4) + "|",
    ]
    for form in FORMS:
        met = [row for row in rows if row["form"] == form and "seconds" in row]
        for row in met:
            cells = " | ".join(cell(row["scores"][bot]) for bot in BOTS)
            lines.append(f"| {form} | {row['seed']} | {cells} | {row['seconds']:,.0f} | {row['rate']:,.0f} |")
        scores = [[row["scores"][bot]["score"] for row in met] for bot in BOTS]
        means = " | ".join(f"{100 * sum(of) / len(of):.0f} %" for of in scores)
        seconds, rate = (sum(row[key] for row in met) / len(met) for key in ("seconds", "rate"))
        lines.append(f"| {form} | mean | {means} | {seconds:,.0f} | {rate:,.0f} |")
    a, b = FORMS
    lines += ["", f"| seed | {a} against {b} | won/drawn/lost |", "|---|---|---|"]
    for row in rows:
        if "seconds" not in row:
            score = row["scores"][b]
            lines.append(f"| {row['seed']} | {cell(score)} | {score['wins']}/{score['draws']}/{score['losses']} |")
    return "\n".join(lines)


def main() -> None:
    """Parses, compares, prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reencoding", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=50_000, help="training steps; the last rollout is finished")
    parser.add_argument("--games", type=int, default=200, help="against each opponent, an even number")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of Markdown")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = compare(arguments.seeds, arguments.steps, arguments.games)
    print(json.dumps(rows) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
