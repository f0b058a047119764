"""The parts of a run from its plan: batches of its game, its network, where its snapshots are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import cast

import torch

from league import config as settings
from league.arena import curriculum, networks
from league.arena.frames import rows_of
from league.boards.standings import rate_evaluation
from league.config.models import Config
from league.envs import registry
from league.maths.elo import ELO_START
from league.play.opponents import num_slots_for
from league.play.summaries import counts_of
from league.policies.kernels import switch
from league.policies.kernels.linear import has_tiles
from league.runtime.device import describe_device, has_bf16, products_of
from league.runtime.launch import place
from league.runtime.ranks import Ranks
from league.sessions.plans import Plan
from league.store.rows import GameRow, RunRow
from league.training.run import Lesson, Met, Run
from league.types import MatchBatch, Policy, PolicyStack


def wire(plan: Plan) -> Run:
    """The parts of a run: the game's batches, the network, and where its snapshots are."""
    row, config, artifacts = plan.row, plan.config, plan.artifacts
    here = config if plan.ranks is None else of_rank(config, plan.ranks)
    taught = lessons_of(here)
    for game_id in dict.fromkeys([row.game_id, *(lesson.game_id for lesson in taught)]):
        artifacts.rows.add_game(GameRow.of(game_id, artifacts.spec))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(row.seed if plan.first_weights is None else plan.first_weights)
        policy = networks.make_policy(config, artifacts.spec)
    if begins_as := plan.begins_as or config.learner.begin_with:
        cast(torch.nn.Module, policy).load_state_dict(artifacts.load_policy(begins_as).state_dict())
    cast(torch.nn.Module, policy).to(plan.device)
    return Run(
        name=row.run,
        config=config,
        env=row.env,
        actions=rows_of(artifacts.spec.action, registry.action_names(config.env.name, config.env.options)),
        game=artifacts.game.model_dump(mode="json"),
        game_id=row.game_id,
        seed=row.seed,
        device=plan.device,
        policy=policy,
        spec=artifacts.spec,
        make_batch=partial(make_batch, here),
        ranks=plan.ranks,
        make_stack=partial(make_stack, policy, config),
        stack_for=partial(networks.make_stack, num_slots=1, precision=config.learner.precision),
        artifacts=artifacts,
        store=artifacts.store,
        callback=plan.callback,
        make_pool=plan.make_pool,
        lessons=taught,
        products=products_of(
            plan.device, config.learner.precision, has_tiles(), is_compiled=switch.IS_ON, has_tf32=has_bf16(plan.device)
        ),
        rate=partial(_rate, plan),
        is_over=lambda: plan.callback.is_over or plan.artifacts.is_asked_to_stop,
    )


def _rate(plan: Plan, met: Met, update: int, agents: Mapping[str, str]) -> None:
    """Adds to the run's rows what an evaluation makes of its agents, and tells it."""
    artifacts = plan.artifacts
    game = GameRow.of(plan.row.game_id, artifacts.spec)
    elo = met.elo.get(artifacts.rows.name, ELO_START), met.trained
    counts = counts_of(list(met.games.values()))
    rate_evaluation(artifacts.rows, counts, elo, game, update, agents, artifacts.taken, plan.callback.rated)


def lessons_of(config: Config) -> tuple[Lesson, ...]:
    """What the training rows of a run with these settings play, lesson by lesson."""
    found = []
    for number, lesson in enumerate(config.env.curriculum, 1):
        options = curriculum.options_of(config, lesson)
        game_id = registry.game_id(config.env.name, options)
        make = partial(make_batch, settings.with_options(config, options))
        found.append(Lesson(number, lesson.begins, game_id, make, curriculum.words(lesson.options)))
    return tuple(found)


def slowness(device: torch.device) -> str:
    """Why networks run slower than they could, in a line; empty where they do not."""
    return f"{switch.WHY_OFF}: networks run on plain torch" if device.type == "cpu" and switch.WHY_OFF else ""


def of_rank(config: Config, ranks: Ranks) -> Config:
    """The settings with the rows, workers and threads of one of the ranks."""
    there, threads = place(), config.env.threads
    env = {"rows": config.env.rows // ranks.size, "workers": config.env.workers // ranks.size}
    env["threads"] = threads and max(1, threads // (ranks.size if there is None else there.local_size))
    return config.model_copy(update={"env": config.env.model_copy(update=env)})


def make_batch(config: Config, rows: int) -> MatchBatch:
    """A batch of the settings' game."""
    env = config.env
    options = registry.check_options(env.name, env.options)
    return registry.make(env.name, rows=rows, threads=env.threads, options=options, workers=env.workers)


def make_stack(policy: Policy, config: Config) -> PolicyStack | None:
    """Room for all live nets, in the format that play multiplies in; None where each plays by itself."""
    return networks.make_stack(policy, num_slots_for(2 * config.pool.live_nets), config.learner.precision)


def new_row(
    run: str, config: Config, seed: int, stage: str, fingerprint: str, device: torch.device, preset: str = ""
) -> RunRow:
    """The row of a run that has not begun."""
    row = RunRow(
        run=run,
        game=config.env.name,
        game_id=registry.game_id(config.env.name, config.env.options),
        fingerprint=fingerprint,
        seed=seed,
        stage=stage,
        config=json.dumps(settings.to_json(config)),
        status="stopped",
        device=describe_device(device),
        preset=preset,
    )
    return row.coming_from(registry.source(config.env.name))
