"""Opponents with memories of their own: bots written in Python, and networks of other shapes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from league.envs import registry
from league.envs.matches.mixtures import choices_of
from league.errors import GuardError, SnapshotError
from league.play import evaluation
from league.play.bots import BotPolicy
from league.play.evaluation import play
from league.play.opponents import FIRST_GUEST
from league.play.pairings import Contestant, Pairing
from league.policies.actor_critic import ActorCritic, Architecture
from league.types import ActionSpec, Origin
from tests.helpers.rollouts import make_collector, network, same

SPEC = registry.spec("matrix", {})
CPU = torch.device("cpu")


def wide(seed: int) -> ActorCritic:
    """A network of another shape than `network`'s."""
    torch.manual_seed(seed)
    sizes = {"encoder_layers": 2, "encoder_heads": 1, "encoder_width": 8, "encoder_feedforward": 8, "latents": 3}
    rest = {"observation_width": 12, "lstm_size": 20, "head_sizes": (), "opponent_encoder": True}
    return ActorCritic(Architecture.of(SPEC, history_tokens=3, **sizes, **rest)).requires_grad_(False)


def noisy(obs: Any, legal: Any, rng: np.random.Generator) -> int:
    return int((rng.integers(2) + obs[1]) % 3)


def guests() -> dict[str, Any]:
    """A network of another shape and a bot in Python."""
    return {"bot:wide": wide(1), "bot:noisy": BotPolicy("noisy", noisy, choices_of(SPEC.action), CPU)}


@pytest.mark.parametrize("stack", [False, True])
def test_guests_play_their_rows_with_their_own_memory(stack: bool) -> None:
    collector = make_collector("matrix", 12, stack=stack, guests=guests())
    lane = collector.lanes[0]
    met = set()
    for update in range(1, 60):
        collector.collect(1, update)
        met |= set(lane.matches.opponents)
        ages = lane.nets.guest_states["bot:wide"].tensors()["count"]
        frozen = lane.nets.opponent_state.tensors()["count"][:-1]
        for row, opponent in enumerate(lane.matches.opponents):
            steps = int(lane.matches.steps[row])
            assert int(ages[row]) == (steps if opponent == "bot:wide" else 0)
            assert int(frozen[row]) == (steps if opponent.startswith("net-") else 0)
    assert {"bot:wide", "bot:noisy", "bot:random"} <= met
    slots = np.array([0, FIRST_GUEST, -1, FIRST_GUEST - 1, FIRST_GUEST])
    rows = {group.slot: group.rows.tolist() for group in lane.nets.frozen.groups(slots)}
    assert rows[FIRST_GUEST] == [1, 4] and rows[FIRST_GUEST - 1] == [3]


@pytest.mark.parametrize("lanes", [(1, 1), (2, 2), (1, 2), (2, 1)])
def test_a_state_with_guests_goes_on(lanes: tuple[int, int]) -> None:
    first = make_collector("matrix", 8, lanes=lanes[0], guests=guests())
    first.collect(13, 1)
    state = first.state_dict()
    second = make_collector("matrix", 8, seed=3, lanes=lanes[1], guests=guests())
    second.policy.load_state_dict(first.policy.state_dict())
    second.pool.load_state_dict(first.pool.state_dict())  # type: ignore[attr-defined]
    assert second.load_state_dict(state).carried == 8
    if lanes[0] == lanes[1]:
        assert same(first.collect(20, 2), second.collect(20, 2))
    else:
        ages = [
            torch.cat([lane.nets.guest_states["bot:wide"].tensors()["count"] for lane in collector.lanes])
            for collector in (first, second)
        ]
        assert torch.equal(*ages) and ages[0].any()
    other = make_collector("matrix", 8, lanes=lanes[1], guests={"bot:wide": wide(1)})
    assert other.load_state_dict(state).lost == 8


def test_evaluation_plays_bots_in_python() -> None:
    """A bot that always plays paper beats one that always plays rock, in every match, from both seats."""

    def always(action: int) -> Contestant:
        bot = BotPolicy(str(action), lambda obs, legal, rng: action, choices_of(SPEC.action), CPU)
        return Contestant(f"bot:always-{action}", bot)

    rows = evaluation.play(
        lambda count: registry.make("matrix", rows=count, threads=1, options={}),
        [Pairing(always(0), always(1), 12, 5), Pairing(Contestant("net", network("matrix", {}, 0)), always(2), 4, 6)],
        Origin("e", "g"),
        update=1,
    )
    met = [row for row in rows if "bot:always-0" in row.agents]
    assert len(met) == 12 and all(row.agents[row.winner] == "bot:always-1" for row in met)


@pytest.mark.parametrize("returned", [3, -1, 1.5, [0, 1], None, "1", True, np.zeros(2)])
def test_what_is_no_action_is_one_line(returned: Any) -> None:
    bot = BotPolicy("mine", lambda obs, legal, rng: returned, choices_of(SPEC.action), CPU)
    with pytest.raises(GuardError, match=r"bot:mine: answered .*, where \[0, 1, 2\] are legal; mend it") as caught:
        bot.step(torch.zeros(2, SPEC.obs_size), bot.initial_state(2))
    assert "\n" not in str(caught.value) and caught.value.kind == "bad_bot"


def test_a_bot_that_fails_is_one_line() -> None:
    def broken(obs: Any, legal: Any, rng: Any) -> int:
        return int(obs[1000])

    def changing(obs: Any, legal: Any, rng: Any) -> int:
        obs[0] = 1.0
        return 0

    for function, words in ((broken, "IndexError: index 1000"), (changing, "ValueError: .*read-only")):
        bot = BotPolicy("mine", function, choices_of(SPEC.action), CPU)
        with pytest.raises(GuardError, match=rf"bot:mine: {words}.* \(.*test_guests.py, line \d+\)"):
            bot.step(torch.zeros(1, SPEC.obs_size), bot.initial_state(1))


KEYS = ActionSpec("multi_binary", (2, 2))
BOX = ActionSpec("box", bounds=((-1.0, 0.1),))
MIXED = ActionSpec("mixture", parts=(ActionSpec("discrete", (3,)), BOX, KEYS), names=("a", "b", "c"))
TUPLES = ActionSpec("legal_tuples", (4, 5), max_tuples=3)


@pytest.mark.parametrize(
    ("action", "mask", "legal"),
    [
        (ActionSpec("multi_discrete", (3,)), [False, True, True], [1, 2]),
        (ActionSpec("multi_discrete", (3, 2)), [True, False, True, False, True], [[0, 2], [1]]),
        (KEYS, [False, True], [1]),
        (BOX, [], [(-1.0, 0.1)]),
        (TUPLES, [0, 4, 3, 1, -1, -1], [(0, 4), (3, 1)]),
        (MIXED, [True, False, True, False, True], {"a": [0, 2], "b": [(-1.0, 0.1)], "c": [1]}),
    ],
)
def test_a_bot_sees_what_is_legal(action: ActionSpec, mask: Any, legal: Any) -> None:
    seen: list[Any] = []

    def look(obs: Any, options: Any, rng: np.random.Generator) -> Any:
        seen.append(copy.deepcopy(options))
        first = choices_of(action).draw(options, rng)
        options.clear()
        return first

    bot = BotPolicy("mine", look, choices_of(action), CPU)
    kind = torch.int16 if action.kind == "legal_tuples" else torch.bool
    given = None if mask is None else torch.tensor([mask], dtype=kind)
    for _ in range(2):
        bot.step(torch.zeros(1, 3), bot.initial_state(1), mask=given)
    assert seen == [legal, legal]


@pytest.mark.parametrize(
    ("action", "answer", "played"),
    [
        (ActionSpec("multi_discrete", (3, 2)), np.array([2, 1]), [2, 1]),
        (KEYS, [1, 0], [1, 0]),
        (MIXED, {"a": 2, "b": [-0.5], "c": (1, 0)}, [2, -0.5, 1, 0]),
        (MIXED, {"a": 2, "b": [-0.5], "c": (1, 2)}, "answered .*keys"),
        (MIXED, {"a": 1, "b": [float("nan")], "c": (1, 0)}, "not within the bounds"),
        (MIXED, {"a": 1}, "it must be a dict of a, b, c"),
        (BOX, "x", "must be 1 real numbers"),
    ],
)
def test_bots_play_actions_of_all_kinds(action: ActionSpec, answer: Any, played: Any) -> None:
    bot = BotPolicy("mine", lambda obs, legal, rng: answer, choices_of(action), CPU)
    if isinstance(played, str):
        with pytest.raises(GuardError, match=f"bot:mine: .*{played}"):
            bot.step(torch.zeros(1, 3), bot.initial_state(1))
        return
    given = bot.step(torch.zeros(2, 3), bot.initial_state(2))[0]
    assert given.dtype == (torch.float32 if action.has_real else torch.int64)
    assert torch.equal(given, torch.tensor([played] * 2, dtype=given.dtype))
    assert action.is_legal(given.numpy().astype(action.dtype), None).all()


def overflowing(net: ActorCritic) -> ActorCritic:
    for weights in net.parameters():
        weights.data.fill_(3e38)
    return net


def unwilling(net: ActorCritic) -> ActorCritic:
    """Finite numbers, of which those of an illegal choice are the greatest once the mask is laid over them."""
    net.actor[-1].bias.data.fill_(-1e15)
    return net


SPOILT = {overflowing: "gives no finite numbers", unwilling: r"plays \[\d\], which is not legal"}


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize("greedy", [False, True])
def test_an_evaluation_plays_nothing_that_cannot_be(spoil: Any, greedy: bool) -> None:
    good, bad = (network("kuhn", {}, seed).requires_grad_(False) for seed in (0, 1))
    sides = Contestant("a" * 64, good), Contestant("b" * 64, spoil(bad), name="theirs@1"), Contestant("bot:random")

    def meet(*pairs: tuple[int, int]) -> object:
        return play(
            lambda rows: registry.make("kuhn", rows=rows, threads=1, options={}),
            [Pairing(sides[a], sides[b], 8, seed=1) for a, b in pairs],
            Origin("e", "g"),
            update=0,
            greedy=greedy,
        )

    assert meet((0, 2))
    with pytest.raises(SnapshotError, match=f"^agent theirs@1: its network {SPOILT[spoil]}.*not stored"):
        meet((0, 2), (2, 1))


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize(("stack", "lanes"), [(False, 1), (True, 2)])
def test_a_rollout_plays_no_opponent_that_cannot_be(spoil: Any, stack: bool, lanes: int) -> None:
    collector = make_collector("kuhn", stack=stack, lanes=lanes)
    collector.collect(8, 1)
    for i in range(3):
        spoil(collector.pool.policy(f"net-{i}"))  # type: ignore[arg-type]
        for slot, agent in enumerate(collector.nets.agents):
            if stack and agent == f"net-{i}":
                collector.nets._fill(slot)
    with pytest.raises(GuardError, match=rf"^opponent net-\d: its network {SPOILT[spoil]}") as caught:
        collector.collect(8, 2)
    assert caught.value.kind == "bad_opponent"
