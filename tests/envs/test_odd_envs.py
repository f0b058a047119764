"""What environments do that their library's API does not allow is named in its words; what it allows is played."""

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from league.arena.games import enter
from league.cli import main
from league.envs.adapters import gymnasium, pettingzoo
from league.envs.contract import check as base
from league.envs.contract import games as game_checks
from league.envs.contract.check import check_match_batch
from league.envs.matches.row import MatchError
from league.errors import CodeError, ConfigError, ContractError
from league.testing import check_game
from tests.helpers import odd_gym, zoo_envs
from tests.helpers.cases import cases
from tests.helpers.games import SUMS, new_user

HERE = "tests.helpers.odd_gym:"


PARTS = ("observations", "rewards", "terminations", "truncations", "infos")


def zoo(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The game of an environment of PettingZoo."""
    found = zoo_envs.module(kind)
    monkeypatch.setitem(sys.modules, found.__name__, found)
    return pettingzoo.open(found.__name__)


def test_what_makes_an_environment_may_be_any_callable() -> None:
    """Without a name or `render_mode`, too; matches are drawn where it takes that, or made the environment so."""
    kind = type(
        "Drawn", (odd_gym.Base,), {"metadata": {"render_modes": ["rgb_array"]}, "__init__": with_mode, "render": print}
    )
    makers = {"plain": lambda: kind(), "drawn": lambda: kind("rgb_array"), "part": partial(kind), "kind": kind}
    module = ModuleType("makers")
    vars(module).update(makers)
    found = {name: hasattr(gymnasium.open(f"makers:{name}", module), "render") for name in makers}
    assert found == {"plain": False, "drawn": True, "part": True, "kind": True}
    zoo_kind = type("Lone", (zoo_envs.Uneven,), {})
    vars(module).update(z=partial(zoo_kind))
    assert pettingzoo.open("makers:z", module).spec


def with_mode(env: Any, render_mode: str | None = None) -> None:
    env.render_mode = render_mode


OBS = "gave an observation"
GYM = {
    "ArrayReward": r"step 1 gave the reward array\(\[0.5\]\), which must be a number",
    "VastReward": "step 1 gave the reward 10+[.]{3}, which must be finite",
    "EndlessReward": "step 1 gave the reward one of type int, which must be finite",
    "NanReward": "step 5 gave the reward nan, which must be finite",
    "NoReward": "step 1 gave the reward None, which must be a number",
    "HugeReward": r"the reward 1e\+38, which must be finite, at most 1e\+30",
    "Complex": f"reset {OBS} that is no array of numbers",
    "Digits": f"reset {OBS} that is no array of numbers",
    "NoArray": f"reset {OBS} that is no array of numbers, 'left'",
    "NoActions": r"the action space has Dict\(\), which has nothing in it",
    "NoNumbers": r"the action space has Box\(.*\), which has nothing in it",
    "OldStep": "step 1 gave 4 values, .* old API",
    "OldReset": r"reset gave array\(.*\), .* old API",
    "NoInfo": "reset gave info=None, which must be a dict",
    "NoSeed": r"reset\(\) got an unexpected keyword argument 'seed'",
    "WrongShape": rf"step 6 {OBS} of shape \(3,\), not \(2,\) as Box",
    "OneLong": rf"reset {OBS} of shape \(1,\), not \(\) as Discrete",
    "OfAnotherForm": rf"reset {OBS} of shape \(1, 2\), not \(2,\) as Box",
    "KeysOfAnotherForm": r"with 'k' of shape \(4,\), not \(2, 2\) as MultiBinary",
    "ChoicesOfAnotherForm": r"with '0' of shape \(2, 1\), not \(2,\) as MultiDiscrete",
    "Nan": f"step 6 {OBS} with nan in it",
    "NoKey": f"reset {OBS} without 'b'",
    "NoSuchToken": rf"step 6 {OBS} with 'b' outside Discrete\(3\): 3",
    "KeyOfTwo": rf"reset {OBS} outside MultiBinary\(2\)",
    "KeyBelow": rf"reset {OBS} outside MultiBinary\(2\)",
    "ChoiceOfAnother": rf"step 6 {OBS} outside MultiDiscrete",
    "Below": rf"step 6 {OBS} outside Box\(-1.0, 1.0",
    "BelowInPart": rf"step 6 {OBS} outside Box",
    "HalfAKey": r"with 0.5 in it, where MultiBinary\(2\) has whole numbers",
    "HalfAChoice": r"with 0.5 in it, where MultiDiscrete\(\[9 3\]\) has whole numbers",
    "HalfANumber": r"with 0.5 in it, where Box\(-9, 9, \(2,\), int64\) has whole numbers",
    "RateInWords": r"metadata\['render_fps'\]='fast'",
    "ModesByNumber": r"metadata\['render_modes'\]=5",
    "TextFlag": "step 1 gave terminated='no'",
    "NothingLegal": "step 6 gave an action_mask without a legal action",
    "WrongMask": r"reset gave an action_mask of shape \(4,\), not \(3,\)",
    "LostMask": "step 4 gave no action_mask, which the decision before had",
    "SaidMask": f"reset {OBS} without 'action_mask', which is in observation_space",
    "TwoMasks": r"step 6 gave an action_mask in the observation and another in the info: array\(\[1, 1, 0\]",
    "NeedsSize": r"missing 1 required positional argument: 'size'.*; give what it needs behind the address, as in NAME",
    "MaskOfLogits": "reset gave an action_mask of other numbers than 0 and 1",
    "MaskOfTwo": "reset gave an action_mask of other numbers than 0 and 1",
    "NamedSpace": "observation_space is 'Box', which is no space",
    "CountedActions": "action_space is 3, which is no space",
    "ListedActions": r"action_space is \[0, 1\], which is no space",
    "Vast": "observation_space has 9,000,000 numbers",
    "VastParts": "observation_space has 6,750,000 numbers",
    "VastActions": "action_space has 1,000,000 numbers",
    "Raises": r"RuntimeError: simulator lost \(.*odd_gym.py, line \d+\)",
}
"""What breaks Gymnasium's API -> the words that name it."""


@pytest.mark.parametrize("kind", GYM)
def test_what_gymnasium_does_not_allow_is_named(kind: str) -> None:
    """With the call that gave it, in a line."""
    fails = kind in ("NoSeed", "Raises", "NeedsSize")
    with pytest.raises(CodeError if fails else ConfigError, match=GYM[kind]) as caught:
        gymnasium.open(HERE + kind)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (zoo_envs.Unlike, "its agents see 'x' as numbers and as tokens; wrap"),
        (zoo_envs.ActsUnlike, "its agents differ in 'x' of what they do: box and discrete; wrap"),
        (zoo_envs.OldDones, "gave 4 values, .* old API"),
        (zoo_envs.OldBegin, r"reset gave \{.*, not \(observations, infos\); .* old API"),
        (zoo_envs.Unseen, "step 2 gave observations without agent 1, which is in `agents`"),
        (zoo_envs.ListedRewards, r"step 1 gave rewards=\[0.0, 1.0\], which must be a dict by agent"),
        (zoo_envs.Stranger, "step 1 gave agent_selection='nobody', which is none of"),
        (zoo_envs.Unended, "reset gave terminations without agent 'wide', which is in `agents`"),
        (zoo_envs.Uninformed, "reset gave infos=None, which must be a dict by agent"),
        *(
            (zoo_envs.changed(place, {1: None}), f"step 2 gave {name} without agent 1, which is in `agents`")
            for place, name in enumerate(PARTS)
        ),
        *(
            (zoo_envs.changed(place, {"x": {} if place == 4 else 0}), f"step 2 gave {name} with 'x', which is none of")
            for place, name in enumerate(PARTS)
        ),
        (zoo_envs.changed(4, {1: "lost"}), "step 2 gave infos with 'lost' of agent 1, which must be a dict"),
        (zoo_envs.Uncounted, "reset gave infos without agent 0, which is in `agents`"),
        (zoo_envs.Gone, r"step 2 gave agents=\[0\] without 1, which was neither terminated nor truncated"),
        (zoo_envs.GoneInTurns, r"step 4 gave agents=\[\] without 'wide', which was neither terminated nor truncated"),
        (zoo_envs.Listless, "agents=None, which must be a list"),
        (zoo_envs.Nobody, "no agents: `agents` is empty"),
        (zoo_envs.Unpaid, "step 1 gave rewards without agent 'wide', which is in `agents`"),
        (zoo_envs.FarOff, r"gave an observation outside Box\(-10.0, 10.0, \(2,\), float32\): .* of agent "),
        (zoo_envs.FarOffInTurns, r"reset gave an observation with 'observation' outside Discrete\(20\): -1 of agent"),
        (zoo_envs.FormOff, r"an observation with 'observation' of shape \(1,\), not \(\) as Discrete\(20\) of agent"),
        (zoo_envs.LosesMask, "step 3 gave no action_mask, which the decision before had"),
        (zoo_envs.Spaceless, "action_space is 3, which is no space of gymnasium.spaces"),
        (zoo_envs.Undescribed, "metadata=None, which must be a dict"),
        (zoo_envs.Twice, r"agents=\[0, 0\], which names an agent twice"),
        (zoo_envs.Back, r"step 3 gave agents=\[0, 1\] with 1, which had left them"),
        (zoo_envs.Stuck, "step 2 gave an action_mask without a legal action of .* of agent '"),
    ],
)
def test_what_pettingzoo_does_not_allow_is_named(kind: type[Any], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the call that gave it and the agent, in a line."""
    with pytest.raises(ConfigError, match=words) as caught:
        zoo(kind, monkeypatch)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "kind", ["Ring", "ZeroAtEnds", "Reused", "LateMask", "MaskedParts", "AllEmpty", "Astray", "KeysAlike"]
)
def test_unusual_environments_keep_the_contract(kind: str) -> None:
    """An end that looks like the beginning, an array that is used again, a mask that comes late or in parts."""
    game = gymnasium.open(HERE + kind)
    check_match_batch(lambda rows, threads: game.make(rows, 1, game.Options()), rows=2, steps=30)


@pytest.mark.parametrize(
    "kind",
    [zoo_envs.Numbered, zoo_envs.Paired, zoo_envs.Renamed, zoo_envs.NoPossible, zoo_envs.Roles, zoo_envs.WithLast],
)
def test_agents_of_any_name_and_size_keep_the_contract(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, tuples, other names in every match; unequal roles; attributes with names of the other API."""
    game = zoo(kind, monkeypatch)
    check_match_batch(lambda rows, threads: game.make(rows, 1, game.Options()), rows=2, steps=20)


def test_roles_share_one_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has the larger size, the smaller role's numbers come first in it, and what it lacks is not legal."""
    game = zoo(zoo_envs.Roles, monkeypatch)
    batch = game.make(8, 1, game.Options())
    batch.reset(0)
    spec = batch.spec
    shapes = {part.name: (part.start, part.shape, part.count) for part in spec.observation}
    assert shapes == {"map": (0, (5, 6, 1), 0), "me": (30, (3,), 0), "near": (33, (3,), 4), "player": (36, (2,), 0)}
    assert set(spec.action.names) == {"aim", "keys", "move"}
    move = spec.action.parts[spec.action.names.index("move")]
    assert move.choices == (5, 3)
    for row, match in enumerate(batch.matches):
        prey = 1 ^ match._swap
        assert batch.obs[row, prey, 36:].tolist() == [0, 1] and batch.obs[row, 1 - prey, 36:].tolist() == [1, 0]
        assert (batch.obs[row, prey, 33:36] > 0).tolist() == [True, False, False]
        image = batch.obs[row, prey, :30].reshape(5, 6)
        assert np.isclose(image[:3, :4], image[0, 0]).all() and not image[3:].any() and not image[:, 4:].any()
        legal = match.legal(prey)
        assert legal["move"] == [[0, 1, 2, 3], [0]] and legal["keys"] == []
        assert match.legal(1 - prey)["move"] == [[0, 1, 2, 3, 4], [0, 1, 2]]


def test_nothing_that_depends_on_actions_is_said_so() -> None:
    """In words of the environment."""
    with pytest.raises(AssertionError, match="nothing depends on the actions of the agent: what is seen and paid"):
        check_game("gymnasium:" + HERE + "Idle")


DRAWS = f"""
{SUMS.replace("self.steps / 4", "(self.steps + seat) / 4").replace("actions[0]", "actions[0] ^ actions[1]")}
    def render(self):
        FAULT
"""
ALONE = """
import gymnasium
from tests.helpers.odd_gym import Ring
class Drawn(Ring):
    metadata = {"render_modes": ["rgb_array"]}
    def __init__(self, render_mode=None):
        self.render_mode = render_mode
    def render(self):
        FAULT
"""


@pytest.mark.parametrize(
    ("text", "fault", "words"),
    cases(
        (DRAWS, "1 / 0", r"division by zero \(.*drawn.py, line \d+\)"),
        slow=[
            (DRAWS, "import no_such", ""),
            (ALONE, "return 5", "must give an array"),
            (ALONE, "raise gymnasium.error.DependencyNotInstalled('no display')", ""),
        ],
    ),
)
def test_pictures_are_tried(text: str, fault: str, words: str, tmp_path: Path) -> None:
    """As shapes are; without the library that draws them the rest of the contract is held, and a line says so."""
    file, said = tmp_path / "drawn.py", list[str]()
    file.write_text(text.replace("FAULT", fault))
    with new_user(tmp_path), pytest.raises((ContractError, MatchError), match=words) if words else nullcontext():
        found = check_game(f"gymnasium:{file}:Drawn" if text is ALONE else str(file), say=said.append)
        assert found is not None and found.drawings == 0 and "was not drawn: " in said[-1]


def test_looking_at_an_environment_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder and torch's type are as before once a library's game is known, as for every other game."""
    monkeypatch.chdir(tmp_path)
    enter(f"gymnasium:{HERE}Moves")
    assert Path.cwd() == tmp_path and torch.get_default_dtype() == torch.float32


@pytest.mark.slow
def test_check_of_long_matches_is_bounded_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Matches of 34 steps, with a tenth of the budget: each step of a few runs is looked at; comparisons end early."""
    steps = 0

    def counted(self: Any, action: Any) -> Any:
        nonlocal steps
        steps += 1
        return base_step(self, action)

    base_step = odd_gym.Marathon.step
    monkeypatch.setattr(odd_gym.Marathon, "step", counted)
    monkeypatch.setattr(base, "BUDGET", 100)
    monkeypatch.setattr(game_checks, "BUDGET", 100)
    monkeypatch.setattr(sys, "argv", ["league", "check", f"gymnasium:{HERE}Marathon"])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert not ended.value.code, shown.err
    assert "matches take up to 34 steps: runs of 122 are played, and 100 of them compared" in shown.err
    assert "checking native bots" in shown.err
    assert "in runs of 122 steps, of which 100 were compared, with matches of up to 34" in shown.out
    assert steps < 30_000
