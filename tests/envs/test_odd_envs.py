"""What environments do that their library's API does not allow is named in its words; what it allows is played."""

from __future__ import annotations

import sys
from pathlib import Path
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
from league.errors import CodeError, ConfigError
from league.testing import check_game
from tests.helpers import odd_gym, zoo_envs
from tests.helpers.games import forget

HERE = "tests.helpers.odd_gym:"


def zoo(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The game of an environment of PettingZoo."""
    found = zoo_envs.module(kind)
    monkeypatch.setitem(sys.modules, found.__name__, found)
    return pettingzoo.open(found.__name__)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (odd_gym.ArrayReward, r"step 1 gave the reward array\(\[0.5\]\), which must be a number"),
        (odd_gym.VastReward, "step 1 gave the reward 10+[.]{3}, which must be finite"),
        (odd_gym.EndlessReward, "step 1 gave the reward one of type int, which must be finite"),
        (odd_gym.Complex, r"reset gave an observation that is no array of numbers, array\(.*j\]\), where Box"),
        (odd_gym.Digits, r"reset gave an observation that is no array of numbers, array\(.*\), where Box"),
        (odd_gym.NoActions, r"the action space has Dict\(\), which has nothing in it"),
        (odd_gym.NanReward, "step 5 gave the reward nan, which must be finite"),
        (odd_gym.NoReward, "step 1 gave the reward None, which must be a number"),
        (odd_gym.HugeReward, r"the reward 1e\+38, which must be finite, at most 1e\+30"),
        (
            odd_gym.OldStep,
            r"step 1 gave 4 values, not \(observation, reward, terminated, truncated, info\); .* old API",
        ),
        (odd_gym.OldReset, r"reset gave array\(.*\), not \(observation, info\); .* old API"),
        (odd_gym.NoInfo, "reset gave info=None, which must be a dict"),
        (odd_gym.NoSeed, r"reset\(\) got an unexpected keyword argument 'seed'"),
        (odd_gym.WrongShape, r"step 6 gave an observation of shape \(3,\), not \(2,\) as Box"),
        (odd_gym.Nan, "step 6 gave an observation with nan in it, which must be finite"),
        (odd_gym.NoArray, "reset gave an observation that is no array of numbers, 'left', where Box"),
        (odd_gym.NoKey, "reset gave an observation without 'b'"),
        (odd_gym.NoSuchToken, r"step 6 gave an observation with 'b' outside Discrete\(3\): 3"),
        (odd_gym.RateInWords, r"metadata\['render_fps'\]='fast', which must be a number above 0"),
        (odd_gym.ModesByNumber, r"metadata\['render_modes'\]=5, which must be a list"),
        (odd_gym.OneLong, r"reset gave an observation of shape \(1,\), not \(\) as Discrete\(9\)"),
        (odd_gym.TextFlag, "step 1 gave terminated='no', which must be a bool"),
        (odd_gym.NothingLegal, r"step 6 gave an action_mask without a legal action of Discrete\(3\)"),
        (odd_gym.WrongMask, r"reset gave an action_mask of shape \(4,\), not \(3,\) as Discrete\(3\)"),
        (odd_gym.OfAnotherForm, r"reset gave an observation of shape \(1, 2\), not \(2,\) as Box"),
        (odd_gym.KeysOfAnotherForm, r"with 'k' of shape \(4,\), not \(2, 2\) as MultiBinary"),
        (odd_gym.ChoicesOfAnotherForm, r"with '0' of shape \(2, 1\), not \(2,\) as MultiDiscrete"),
        (odd_gym.KeyOfTwo, r"reset gave an observation outside MultiBinary\(2\): array\(\[0, 2\]\)"),
        (odd_gym.KeyBelow, r"reset gave an observation outside MultiBinary\(2\): array\(\[ 0, -1\]\)"),
        (odd_gym.HalfAKey, r"an observation with 0.5 in it, where MultiBinary\(2\) has whole numbers"),
        (odd_gym.ChoiceOfAnother, r"step 6 gave an observation outside MultiDiscrete\(\[9 3\]\): array\(\[6, 5\]\)"),
        (odd_gym.HalfAChoice, r"an observation with 0.5 in it, where MultiDiscrete\(\[9 3\]\) has whole numbers"),
        (odd_gym.HalfANumber, r"an observation with 0.5 in it, where Box\(-9, 9, \(2,\), int64\) has whole numbers"),
        (odd_gym.Below, r"step 6 gave an observation outside Box\(-1.0, 1.0, \(2,\), float32\): array\(\[-99"),
        (odd_gym.BelowInPart, r"step 6 gave an observation outside Box\(.*: array\(\[-99"),
        (odd_gym.LostMask, "step 4 gave no action_mask, which the decision before had"),
        (odd_gym.SaidMask, "reset gave an observation without 'action_mask', which is in observation_space"),
        (odd_gym.MaskOfLogits, r"reset gave an action_mask of other numbers than 0 and 1: array\(.*inf"),
        (odd_gym.MaskOfTwo, "reset gave an action_mask of other numbers than 0 and 1: array"),
        (odd_gym.NamedSpace, "observation_space is 'Box', which is no space of gymnasium.spaces"),
        (odd_gym.CountedActions, "action_space is 3, which is no space of gymnasium.spaces"),
        (odd_gym.ListedActions, r"action_space is \[0, 1\], which is no space of gymnasium.spaces"),
        (odd_gym.Vast, "observation_space has 9,000,000 numbers, more than 4,194,304"),
        (odd_gym.VastParts, "observation_space has 6,750,000 numbers, more than 4,194,304"),
        (odd_gym.VastActions, "action_space has 1,000,000 numbers, more than 65,536"),
        (odd_gym.Raises, r"RuntimeError: simulator lost \(.*odd_gym.py, line \d+\)"),
    ],
)
def test_what_gymnasium_does_not_allow_is_named(kind: type[Any], words: str) -> None:
    """With the call that gave it, in a line."""
    fails = kind in (odd_gym.NoSeed, odd_gym.Raises)
    with pytest.raises(CodeError if fails else ConfigError, match=words) as caught:
        gymnasium.open(HERE + kind.__name__)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (zoo_envs.Unlike, "its agents see 'x' as numbers and as tokens; wrap"),
        (zoo_envs.ActsUnlike, "its agents differ in 'x' of what they do: box and discrete; wrap"),
        (
            zoo_envs.OldDones,
            r"gave 4 values, not \(observations, rewards, terminations, truncations, infos\); .* old API",
        ),
        (zoo_envs.OldBegin, r"reset gave \{.*, not \(observations, infos\); .* old API"),
        (zoo_envs.Unseen, "step 2 gave observations without agent 1, which is in `agents`"),
        (zoo_envs.ListedRewards, r"step 1 gave rewards=\[0.0, 1.0\], which must be a dict by agent"),
        (zoo_envs.Stranger, "step 1 gave agent_selection='nobody', which is none of"),
        (zoo_envs.Unended, "reset gave terminations without agent 'wide', which is in `agents`"),
        (zoo_envs.Uninformed, "reset gave infos=None, which must be a dict by agent"),
        (zoo_envs.changed(0, {0: None}), "step 2 gave observations without agent 0, which is in `agents`"),
        (zoo_envs.changed(1, {1: None}), "step 2 gave rewards without agent 1, which is in `agents`"),
        (zoo_envs.changed(2, {0: None}), "step 2 gave terminations without agent 0, which is in `agents`"),
        (zoo_envs.changed(3, {1: None}), "step 2 gave truncations without agent 1, which is in `agents`"),
        (zoo_envs.changed(4, {1: None}), "step 2 gave infos without agent 1, which is in `agents`"),
        (zoo_envs.changed(0, {"x": 0}), r"step 2 gave observations with 'x', which is none of \[0, 1\]"),
        (zoo_envs.changed(1, {"x": 0.0}), r"step 2 gave rewards with 'x', which is none of \[0, 1\]"),
        (
            zoo_envs.changed(2, {"__all__": False}),
            r"step 2 gave terminations with '__all__', which is none of \[0, 1\]",
        ),
        (zoo_envs.changed(3, {"__all__": False}), r"step 2 gave truncations with '__all__', which is none of \[0, 1\]"),
        (zoo_envs.changed(4, {1: "lost"}), "step 2 gave infos with 'lost' of agent 1, which must be a dict"),
        (zoo_envs.changed(4, {"common": {}}), r"step 2 gave infos with 'common', which is none of \[0, 1\]"),
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
    "kind",
    [
        odd_gym.Ring,
        odd_gym.ZeroAtEnds,
        odd_gym.Reused,
        odd_gym.LateMask,
        odd_gym.MaskedParts,
        odd_gym.AllEmpty,
        odd_gym.Astray,
        odd_gym.KeysAlike,
    ],
)
def test_unusual_environments_keep_the_contract(kind: type[Any]) -> None:
    """An end that looks like the beginning, an array that is used again, a mask that comes late or in parts."""
    game = gymnasium.open(HERE + kind.__name__)
    check_match_batch(lambda rows, threads: game.make(rows, 1, game.Options()), rows=2, steps=30)


@pytest.mark.parametrize(
    "kind", [zoo_envs.Numbered, zoo_envs.Paired, zoo_envs.Renamed, zoo_envs.NoPossible, zoo_envs.Roles]
)
def test_agents_of_any_name_and_size_keep_the_contract(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, tuples, other names in every match; roles whose parts are of unequal sizes."""
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
    with pytest.raises(AssertionError, match="nothing depends on the actions of seat 0: what is seen and paid"):
        check_game("gymnasium:" + HERE + "Idle")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise KeyError('board')", r"drawing\(\) after 0 steps of the run raises KeyError: 'board' \(.*line \d+\)"),
        ("return 'a picture'", "it is of type str, not league.envs.drawing.Drawing"),
        ("return Drawing((0, 0, 0, 1))", "must be .* of an area"),
        ("d = Drawing((0, 0, 1, 1)); d.line([(0, float('nan'))], 1, (0, 0, 0)); return d", "that is not finite"),
        ("assert seat != 1; return Drawing((0, 0, 1, 1))", r"drawing\(\) for seat 1 after 0 steps .* AssertionError"),
    ],
)
def test_check_tries_the_drawing(line: str, words: str, tmp_path: Path) -> None:
    """In whole and for each seat; what cannot be shown is named."""
    game = tmp_path / "sketch.py"
    game.write_text(
        "from league.envs import Match\nfrom league.envs.drawing import Drawing\n"
        "class Sketch(Match):\n    obs_size, action = 2, 2\n"
        "    def reset(self, rng):\n        self.turn, self.first = 0, int(rng.integers(2))\n"
        "    def observe(self, seat):\n        return [self.first ^ seat, self.turn / 3]\n"
        "    def step(self, actions):\n        self.turn += 1\n"
        "        if self.turn == 3:\n"
        "            self.end(None if actions[0] == actions[1] else int(actions[1] > actions[0]))\n"
        f"    def drawing(self, seat=None):\n        {line}\n"
    )
    forget()
    with pytest.raises(AssertionError, match=words):
        check_game(str(game))


def checked(*words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that `league check` prints."""
    monkeypatch.setattr(sys, "argv", ["league", "check", *words])
    with pytest.raises(SystemExit) as ending:
        main()
    out, err = capsys.readouterr()
    assert not ending.value.code, err
    return [" ".join(line.split()) for line in out.splitlines()]


def test_check_shows_the_layout_part_by_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where each part lies, of what kind and in what range; of actions as well."""
    lines = checked("gymnasium:" + HERE + "AllEmpty", monkeypatch=monkeypatch, capsys=capsys)
    for line in (
        "observation: 3 numbers, as bots and networks see them",
        "[0:2] o 2 numbers -1 to 1",
        "[2:3] t 1 token 0 to 8",
        "action: 1 number",
        "[0:1] choices, of 3",
    ):
        assert line in lines


def test_check_plays_a_bot_of_ones_own_in_a_librarys_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its environment has keywords, which are options of the game."""
    bot = tmp_path / "steady.py"
    bot.write_text("def steady(observation, legal, rng):\n    return legal[-1]\n")
    words = ["gymnasium:" + HERE + "Ring", "--bot", f"{bot}:steady"]
    assert "bot steady: keeps the contract" in checked(*words, monkeypatch=monkeypatch, capsys=capsys)


def test_looking_at_an_environment_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder and torch's type are as before once a library's game is known, as for every other game."""
    monkeypatch.chdir(tmp_path)
    enter(f"gymnasium:{HERE}Moves")
    assert Path.cwd() == tmp_path and torch.get_default_dtype() == torch.float32


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
