"""Matches in plain Python: the examples, every kind of action, states, streams, options, and what bad ones are told."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from league.envs import Match, MatchError, registry
from league.envs.contract.check import check_match_batch
from league.envs.matches.row import next_seed
from league.envs.matches.rows import ENDLESS, RowBatch, TurnRowBatch
from league.errors import ConfigError, UsageError
from league.types import DRAW, EXTERNAL, ActionSpec, ObservationPart, Turns
from tests.helpers.matches import Auction, Grid, Hands, Keys

ROOT = Path(__file__).resolve().parents[2]


def example(name: str) -> Any:
    """A module of examples/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RPS, CONNECT4 = example("rps"), example("connect4")
GAMES: list[type[Match]] = [RPS.RockPaperScissors, CONNECT4.ConnectFour, Grid, Keys, Hands, Auction]


def make(match: type[Match], rows: int = 4, **options: Any) -> RowBatch:
    """A batch of a game's matches."""
    game = match.as_game()
    return cast(RowBatch, game.make(rows, 1, game.Options(**options)))


def play(batch: Any, steps: int, seed: int = 0) -> list[bytes]:
    """What some steps of random legal actions show, as bytes."""
    rng, trace = np.random.default_rng(seed), []
    for _ in range(steps):
        units = rng.random((*batch.controllers.shape, batch.spec.action.mask_size))
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, units)
        batch.step()
        trace.append(b"".join(x.tobytes() for x in (batch.obs, batch.reward_terms, batch.terminated, batch.truncated)))
    return trace


@pytest.mark.parametrize("match", GAMES)
def test_matches_keep_the_contract(match: type[Match]) -> None:
    """Every kind of match passes the public checker, in turns or at once as its class is."""
    batch = make(match)
    assert isinstance(batch, Turns) == (match.play is not Match.play) == isinstance(batch, TurnRowBatch)
    assert (batch.mask is None) == (match.legal is Match.legal)
    check_match_batch(lambda rows, threads: make(match, rows), steps=120, rows=3)


def test_examples_are_as_short_as_promised() -> None:
    """Rock-paper-scissors is a class of ten lines; Connect Four with its bot is a file of forty."""
    lines = {name: (ROOT / "examples" / f"{name}.py").read_text() for name in ("rps", "connect4")}
    assert sum(bool(line.strip()) for line in lines["rps"].split("class ")[1].splitlines()) <= 10
    assert sum(bool(line.strip()) for line in lines["connect4"].splitlines()) <= 40


def test_rock_paper_scissors_is_won_by_the_better_throw() -> None:
    """Paper (1) beats rock (0), scissors (2) beat paper, rock beats scissors; ten equal throws are a draw, cut."""
    batch = make(RPS.RockPaperScissors, 9)
    throws = [(a, b) for a in range(3) for b in range(3)]
    for throw in range(10):
        batch.actions[:, :, 0] = throws
        batch.step()
        if throw == 0:
            ended = {throws[row]: int(batch.result["winner"][row]) for row in np.flatnonzero(batch.terminated)}
    assert ended == {(1, 0): 0, (2, 1): 0, (0, 2): 0, (0, 1): 1, (1, 2): 1, (2, 0): 1}
    cut = np.flatnonzero(batch.truncated)
    assert [throws[row] for row in cut] == [(0, 0), (1, 1), (2, 2)]
    assert {batch.spec.end_reasons[i] for i in batch.result["end_reason"][cut]} == {"limit"}
    assert (batch.result["winner"][cut] == DRAW).all() and (batch.result["ticks"][cut] == 10).all()
    assert not batch.reward_terms[cut].any()


def has_four(grid: Any, seat: int) -> bool:
    """The slow twin: every line of four cells of the (7, 6) grid, looked at one by one."""
    cells = [(x, y) for x in range(7) for y in range(6)]
    lines = [
        [(x + i * dx, y + i * dy) for i in range(4)] for x, y in cells for dx, dy in ((1, 0), (0, 1), (1, 1), (1, -1))
    ]
    return any(all(0 <= x < 7 and 0 <= y < 6 and grid[x, y] == seat for x, y in line) for line in lines)


def test_connect_four_keeps_its_rules() -> None:
    """Discs fall onto each other, full columns are closed, four in a line win: held against a plain grid."""
    rng, reasons = np.random.default_rng(3), set()
    for game in range(60):
        match = CONNECT4.ConnectFour()
        match.begin(game)
        grid, seat = np.full((7, 6), -1), 0
        while not match.is_over:
            open_columns = [x for x in range(7) if (grid[x] == -1).any()]
            assert match.legal(seat) == open_columns and match.to_move == seat
            x = int(rng.choice(open_columns)) if game else next(x for x in (0, 1, 2, 4, 3, 5, 6) if x in open_columns)
            grid[x, (grid[x] == -1).argmax()] = seat
            match.play(x)
            own, other = np.reshape(match.observe(1 - seat), (2, 7, 6))
            assert (own == (grid == 1 - seat)).all() and (other == (grid == seat)).all()
            assert match.is_over == (has_four(grid, seat) or (grid >= 0).all())
            seat = 1 - seat
        assert match.winner == (1 - seat if has_four(grid, 1 - seat) else None)
        reasons.add(match._outcome[1])
    assert "four" in reasons


def test_greedy_wins_and_blocks() -> None:
    """The bot finishes a line of its own before it blocks one, in any direction, and beats random play."""
    greedy, rng = CONNECT4.greedy, np.random.default_rng(0)
    own, other = np.zeros((7, 6), np.float32), np.zeros((7, 6), np.float32)
    other[2, :3] = 1
    own[3:6, 0] = 1
    seen = np.stack([own, other]).ravel()
    assert greedy(seen, list(range(7)), rng) in (6, 2) and greedy(seen, [0, 1, 2, 6], rng) == 6
    assert greedy(seen, [0, 1, 2, 4], rng) == 2
    batch = make(CONNECT4.ConnectFour, 8)
    batch.controllers[:] = [(0, 1), (1, 0)] * 4
    batch.reset(1)
    won = []
    for _ in range(120):
        batch.step()
        for row in np.flatnonzero(batch.terminated):
            won.append(batch.result["winner"][row] == row % 2)
    assert len(won) > 20 and np.mean(won) > 0.9


def test_what_a_match_gives_reaches_the_arrays() -> None:
    """Reward terms are of their step, metrics of the match; `win` is at the end; a cut is truncated, not terminated."""
    batch = make(Grid, 2, rounds=3, lucky=False)
    batch.actions[:] = [[[1, 2], [1, 1]], [[0, 2], [0, 2]]]
    for step in range(3):
        batch.step()
        assert batch.reward_terms[0].tolist() == [[1.0, float(step == 2)], [0.0, -float(step == 2)]]
        assert not batch.reward_terms[1].any()
    assert batch.terminated.tolist() == [True, False] and batch.truncated.tolist() == [False, True]
    rich, cut = batch.result
    assert (rich["winner"], cut["winner"]) == (0, DRAW)
    assert rich["metrics"].tolist() == [[3.0, 3.0], [0.0, 3.0]] and cut["metrics"].tolist() == [[0.0, 3.0], [0.0, 3.0]]
    assert [batch.spec.end_reasons[x["end_reason"]] for x in (rich, cut)] == ["rich", "clock"]


def test_an_illegal_action_counts_as_the_first_legal_one() -> None:
    """Of numbers, parts and tuples; of keys those that may not be pressed are not; what is no action is refused."""
    game = make(CONNECT4.ConnectFour, 1)
    for _ in range(6):
        game.actions[:] = 3
        game.step()
    state, obs = game.get_state(), game.obs.copy()
    game.step()
    shown = game.obs.copy()
    game.set_state(state)
    assert (game.obs == obs).all()
    game.actions[:] = 0
    game.step()
    assert (game.obs == shown).all()
    keys = make(Keys, 1)
    keys.actions[:] = 1
    keys.step()
    keys.step()  # asserts inside that no tired seat jumps
    for match in (CONNECT4.ConnectFour, Grid, Keys, Hands):
        batch = make(match, 1)
        for wrong in (-1, 7):
            batch.actions[:] = wrong
            with pytest.raises(ValueError, match=f"is {wrong}, outside 0 to"):
                batch.step()


@pytest.mark.parametrize("match", [Grid, Hands, Keys])
def test_bots_draw_from_streams_of_their_own(match: type[Match]) -> None:
    """What a bot draws hangs on the match's seed and its seat alone, whatever the other seat is and does."""
    batch = make(match, 1)
    drawn: list[list[float]] = []

    def spy(observation: Any, legal: Any, rng: np.random.Generator) -> Any:
        drawn[-1].append(rng.random())
        return batch._choices.draw(legal, np.random.default_rng(5))

    bot = batch.spec.bots.index("random")
    batch._bots[bot] = spy
    for other in (EXTERNAL, bot, EXTERNAL):
        drawn.append([])
        batch.controllers[0] = [other, bot] if other == EXTERNAL else [bot, EXTERNAL]
        batch.reset(np.array([7], np.uint64))
        batch.actions[:] = other == bot
        while len(drawn[-1]) < 2:
            batch.step()
    assert drawn[0] == drawn[2] and not set(drawn[0]) & set(drawn[1])
    assert next_seed(7, 1) != next_seed(7, 2) != next_seed(7)


def test_bots_see_what_they_may_not_change() -> None:
    """A bot is given its seat's own view, which cannot be written, and the legal actions as the match listed them."""
    batch = make(CONNECT4.ConnectFour, 1)
    given = []

    def spy(observation: Any, legal: Any, rng: Any) -> Any:
        with pytest.raises(ValueError):
            observation[0] = 1
        given.append((observation.copy(), legal))
        return np.int64(3)

    batch._bots[0] = spy
    batch.controllers[:] = 0
    batch.reset(0)
    for _ in range(7):
        views = batch.obs.copy(), [0, 1, 2, 3, 4, 5, 6]
        assert not batch.terminated.any()
        if len(given) == 6:
            with pytest.raises(
                MatchError, match=r"connect4 row 0, seat 0, after 6 steps .* bot greedy answered .*3.*legal"
            ):
                batch.step()
            break
        batch.step()
        assert (given[-1][0] == views[0][0, (len(given) - 1) % 2]).all() and given[-1][1] == views[1]
    assert len(given) == 7 and given[-1][1] == [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("match", GAMES)
def test_a_state_that_is_only_behind_is_played_on(match: type[Match]) -> None:
    """A twin that is set to each state of a batch shows the batch's own views, and plays few steps for it."""
    batch, twin = make(match), make(match)
    batch.controllers[0] = twin.controllers[0] = batch.spec.bots.index("random")
    batch.reset(3)
    for step in range(30):
        play(batch, 1, seed=step)
        twin.set_state(batch.get_state())
        assert twin.obs.tobytes() == batch.obs.tobytes() and twin.get_state() == batch.get_state()
        assert twin.mask is None or (twin.mask == batch.mask).all()
    later = batch.get_state()
    trace = play(batch, 10)
    twin.set_state(later)
    assert play(twin, 10) == trace


def test_a_state_that_cannot_be_played_again_changes_nothing() -> None:
    """States of a game whose code changed without its version are a ValueError, and the batch goes on as it was."""
    batch = make(Hands, 2)
    batch.reset(4)
    play(batch, 2)
    rows, controllers = batch._unpack(batch.get_state())
    kept, ahead = batch.get_state(), [[*rows[0][1], rows[0][1][-1]], [*rows[1][1], [[9, 0]]], [*rows[1][1], [5]], [[]]]
    for log in ahead:
        for number in (0, 1):
            changed = json.loads(json.dumps(rows))
            changed[number][1] = log
            with pytest.raises(ValueError, match=r"a match of the state cannot be played again"):
                batch.set_state(batch._pack(changed, controllers))
            assert batch.get_state() == kept
    twin = make(Hands, 2)
    twin.set_state(kept)
    assert play(batch, 12) == play(twin, 12)
    with pytest.raises(ValueError, match="not of this game"):
        make(Grid, 1, rounds=5).set_state(make(Grid, 1, rounds=6).get_state())
    with pytest.raises(ValueError, match="controllers"):
        batch.set_state(batch._pack(rows, [[0, 5], [0, 0]]))


def test_options_are_those_of_init(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keywords and their annotations are checked as strictly as any game's, and what does not fit together too."""
    monkeypatch.setattr(registry, "_games", {**registry._games, "grid": Grid.as_game()})
    assert registry.check_options("grid", {"target": 2}) == {"target": 2, "rounds": 6, "lucky": True}
    assert registry.game_id("grid", {}) != registry.game_id("grid", {"rounds": 7})
    for wrong, part in (
        ({"target": 0}, "env.target=0: "),
        ({"target": "3"}, "env.target='3': must be a valid integer"),
        ({"lucky": 1}, "env.lucky=1: "),
        ({"luck": True}, "env.luck=True is not an option of grid; did you mean `lucky`?"),
        ({"rounds": 2}, "env.rounds=2 must be at least env.target=3"),
    ):
        with pytest.raises(ConfigError) as caught:
            registry.check_options("grid", wrong)
        assert part in str(caught.value) and "\n" not in str(caught.value)
    assert registry.make("grid", rows=2, threads=0, options={"rounds": 9}).num_rows == 2


def test_a_class_is_one_game() -> None:
    """The same object each time, a subclass's another; its settings are those of its spec and class."""
    game = Keys.as_game()
    assert Keys.as_game() is game and type("More", (Keys,), {}).as_game() is not game  # type: ignore[attr-defined]
    spec = game.spec(game.Options())
    assert (spec.name, spec.bots, spec.anchor, spec.floor) == ("keyboard", ("hold", "random"), "hold", "random")
    assert spec.end_reasons == ("over", "limit") and spec.ticks_per_step == 3
    assert game.action_names(game.Options()) == ("left", "right", "jump")
    assert game.DEFAULTS == {} and game.IMPLIED == {"rewards": {"win": 1.0}}
    other = type("Other", (RPS.RockPaperScissors,), {"defaults": {"agent": {"lstm_size": 8}}})
    assert cast(Any, other).as_game().DEFAULTS == {"agent": {"lstm_size": 8}}
    assert not hasattr(game, "render") and Auction.as_game().spec(Auction.as_game().Options()).name == "auction"


class Named(RPS.RockPaperScissors):
    """Throws with names of their own, as many as its options say."""

    def __init__(self, throws: int = 3) -> None:
        self.action, self.action_names = throws, ("rock", "paper", "scissors", "lizard")[:throws]


@pytest.mark.parametrize(
    ("action", "names", "words"),
    [
        (3, ("rock", "paper"), "action_names has 2 names, its action 3 choices"),
        ((2, 2), ("up", "down", "fire", "up"), "action_names has 'up' twice"),
        (3, "abc", "action_names='abc' must be a tuple of strings"),
        (3, ("rock", 1, "scissors"), "must be a tuple of strings"),
        (ActionSpec("box", bounds=((-1.0, 1.0),)), ("push", "pull"), "has 2 names, its action 1 choices"),
    ],
)
def test_names_of_choices_that_do_not_fit_are_refused(action: Any, names: Any, words: str) -> None:
    """In one line: another count, one name twice, or no strings."""
    game = cast(Any, type("Odd", (RPS.RockPaperScissors,), {"action": action, "action_names": names})).as_game()
    with pytest.raises(UsageError, match=re.escape(words)):
        game.spec(game.Options())


def test_names_of_choices_follow_the_options() -> None:
    """Those of the match that the options make."""
    registry.adopt(type("Named4", (Named,), {"name": "named4"}), "named4")
    assert registry.action_names("named4", {"throws": 3}) == ("rock", "paper", "scissors")
    assert registry.action_names("named4", {"throws": 4})[-1] == "lizard"


def test_a_match_that_can_be_drawn_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """`render` of a match is the game's, of the row that is wanted."""

    class Drawn(Auction):
        def render(self) -> Any:
            return np.full((2, 3, 3), self.left)

    batch = make(Drawn, 3)
    batch.reset(0)
    picture = Drawn.as_game().render(batch, 2, size=(3, 2))
    assert picture.dtype == np.uint8 and (picture == cast(Drawn, batch.matches[2]).left).all()


def broken(base: type[Match] = RPS.RockPaperScissors, **attributes: Any) -> type[Match]:
    """`base` with something wrong about it."""
    return type("Broken", (base,), {"name": "broken", **attributes})


def ends_twice(self: Any, actions: Any) -> None:
    self.end(0)
    self.end(1)


BAD_CLASSES: list[tuple[dict[str, Any], str]] = [
    ({"obs_size": "6"}, "obs_size='6' must be a whole number from 1 to"),
    ({"obs_size": 6.5}, "obs_size=6.5 must be a whole number"),
    ({"obs_size": 10**12}, "obs_size=1000000000000 must be a whole number from 1 to 4,194,304"),
    ({"action": 10**9}, "action=1000000000 must be the number of actions, from 2 to 4,194,304"),
    ({"action": 3.0}, "action=3.0 must be the number of actions"),
    ({"action": None}, "action=None must be the number of actions"),
    ({"obs_range": 5}, "obs_range=5 must be the least and the greatest number"),
    ({"opponent_slice": 3}, "opponent_slice=3 must be two whole numbers"),
    ({"reward_terms": "win"}, "reward_terms='win' must be a tuple of names"),
    ({"end_reasons": None}, "end_reasons=None must be a tuple of names"),
    ({"end_reasons": ()}, "end_reasons=() must be a tuple of names, at least one"),
    ({"max_steps": "12"}, "max_steps='12' must be a whole number from 1 on, or None"),
    ({"max_steps": 0}, "max_steps=0 must be a whole number from 1 on, or None"),
    ({"bots": [1]}, r"bots=[1] must be a dict by name"),
    ({"bots": {"a": 5}}, "bots['a']=5 must be a function of (observation, legal, rng)"),
    ({"bots": {"a": lambda legal: 0}}, "bots['a'] is called with (observation, legal, rng), and takes (legal)"),
    ({"players": {"a": lambda match: 0}}, "players['a'] is called with (match, seat, seed), and takes (match)"),
    ({"observation": 5}, "observation=5 must be a tuple of ObservationPart"),
    ({"unbounded": 5}, "unbounded=5 must be a tuple of (start, stop) or None"),
    ({"action_names": 5}, "action_names=5 must be a tuple of strings"),
    ({"reset": lambda self: None}, "reset is called with (rng), and takes (); change it"),
    ({"observe": lambda self: [0.0] * 6}, "observe is called with (seat), and takes ()"),
    ({"legal": [0, 1, 2]}, "legal=[0, 1, 2] must be a function of (seat)"),
    ({"step": lambda self, a, b: None}, "step is called with (actions), and takes (a, b)"),
    ({"play": lambda self: None}, "play is called with (action), and takes ()"),
    ({"drawing": lambda self: None}, "drawing is called with (seat), and takes ()"),
    ({"obs_size": 0}, "class Broken: obs_size=0 must be how many numbers"),
    ({"action": 1}, "class Broken: action=1 must be the number of actions, from 2 to"),
    ({"action": ()}, "action=() must be"),
    ({"action": ActionSpec("legal_tuples", (3,), 3)}, "legal tuples need a method legal(seat)"),
    ({"step": Match.step}, "has neither step(actions) nor"),
    ({"observe": Match.observe}, "class Broken has no method observe()"),
    ({"layout": [("a", 0, 6)]}, "layout=[('a', 0, 6)] must be a tuple of ObservationPart"),
    ({"layout": (ObservationPart("a", 0, (9,)),)}, "layout ends at 9, not at obs_size=6; name each number"),
    ({"anchor": "nobody"}, "anchor='nobody' is none of the game's bots (random)"),
    ({"__init__": lambda self, size: None}, "`size` of __init__ needs a default"),
]
BAD_PLAY: list[tuple[dict[str, Any], str]] = [
    (
        {"observe": lambda self, seat: [0.0] * (6 - seat)},
        "seat 1, after 0 steps .*observe gave 5 numbers, but obs_size is 6",
    ),
    ({"observe": lambda self, seat: 1.0}, "observe gave 1 numbers, but obs_size is 6"),
    ({"observe": lambda self, seat: None}, "observe gave None; return 6 numbers"),
    ({"observe": lambda self, seat: [10**400] * 6}, "observe gave .*which is not 6 numbers"),
    ({"observe": lambda self, seat: ["a"] * 6}, "observe gave .*which is not 6 numbers"),
    ({"observe": lambda self, seat: [0, 0, 0, 0, 2 * seat, 0]}, r"row 0, seat 1.*obs\[4\].* is 2.0, outside obs_range"),
    ({"observe": lambda self, seat: [float("nan")] * 6}, r"obs\[0\].* is nan, not a finite number"),
    ({"legal": lambda self, seat: []}, "legal gave no action"),
    ({"legal": lambda self, seat: [0, 3]}, "legal gave .*, of which 3 is no action: they are 0 to 2"),
    ({"legal": lambda self, seat: [True, False, True]}, "legal gave .*, a mask; it must be a list of the numbers"),
    ({"legal": lambda self, seat: 2}, "legal gave 2; it must be a list of the numbers"),
    ({"legal": lambda self, seat: [0.5]}, "legal gave .*; it must be a list of the numbers"),
    ({"step": lambda self, actions: self.end(2)}, r"end\(winner=2\): must be seat 0, seat 1, or None"),
    (
        {"step": lambda self, actions: self.end(0, "tired")},
        r"end\(reason='tired'\): must be one of end_reasons, 'over'",
    ),
    ({"step": ends_twice}, r"after 1 steps .*end\(\) is called a second time"),
    ({"step": lambda self, actions: self.reward(0, "gold")}, r"reward\(0, 'gold'\) must name .*\(none\)"),
    ({"step": lambda self, actions: self.reward(0, "win")}, "`win` is given by"),
    *(
        (
            {
                words: (name,),
                "step": lambda self, actions, call=call, name=name, amount=amount: (
                    getattr(self, call)(1, name, amount),
                    self.end(0),
                ),
            },
            rf"{call}\(1, '{name}'\) is of .*, which is no number",
        )
        for words, call, name in (("reward_terms", "reward", "gold"), ("metrics", "measure", "moves"))
        for amount in (None, "1", [1.0, 2.0])
    ),
    ({"reset": lambda self, rng: self.end(0)}, r"reset\(\) ends the match"),
    ({"max_steps": None, "step": lambda self, actions: None}, f"after {ENDLESS} steps .*is still not over"),
]
BAD_TURNS: list[tuple[dict[str, Any], str]] = [
    ({"play": lambda self, action: setattr(self, "to_move", 2)}, "to_move=2 must be seat 0 or seat 1; set it in reset"),
    ({"play": lambda self, action: setattr(self, "to_move", None)}, "to_move=None must be seat 0 or seat 1;"),
]


@pytest.mark.parametrize(("attributes", "rule"), BAD_CLASSES)
def test_a_class_that_lacks_something_is_told_in_one_line(attributes: dict[str, Any], rule: str) -> None:
    """Before anything is played, with the class and what to write."""
    with pytest.raises(UsageError) as caught:
        make(broken(**attributes))
    assert rule in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("match", "rule"),
    [
        *((broken(**attributes), rule) for attributes, rule in BAD_PLAY),
        *((broken(CONNECT4.ConnectFour, **attributes), rule) for attributes, rule in BAD_TURNS),
        (broken(Keys, legal=lambda self, seat: [0, 0, 3]), "legal gave .*, of which 3 is no action"),
        (broken(Grid, legal=lambda self, seat: [[0, 1]]), "legal gave 1 lists; it must be a list .* each of 2 parts"),
        (broken(Grid, legal=lambda self, seat: [[0, 1], []]), "legal gave no choice for part 1"),
        (broken(Hands, legal=lambda self, seat: [(0, 0)] * 2), "legal gave 2 tuples, 1 different"),
        (broken(Hands, legal=lambda self, seat: [(0, 2)]), r"legal gave \(0, 2\); it must be a list of at most 8"),
        (broken(Grid, step=lambda self, a: (self.measure(0, "x"), self.end(0))), r"measure\(0, 'x'\) must name"),
    ],
)
def test_a_match_that_breaks_a_rule_is_told_in_one_line(match: type[Match], rule: str) -> None:
    """With the row, the seat, the step and the match's seed."""

    def played() -> None:
        batch = make(match, 2)
        for _ in range(ENDLESS + 1):
            batch.step()

    with pytest.raises(MatchError, match=rule) as caught:
        played()
    assert "\n" not in str(caught.value) and "of the match of seed" in str(caught.value)


@pytest.mark.parametrize(
    ("base", "answer"),
    [(RPS.RockPaperScissors, 3), (RPS.RockPaperScissors, True), (Grid, (0,)), (Keys, (2, 0, 0)), (Hands, "x")],
)
def test_a_bot_that_answers_what_is_not_legal_is_named(base: type[Match], answer: Any) -> None:
    """With its seat and its answer."""
    batch = make(broken(base, bots={"odd": lambda observation, legal, rng: answer}, anchor=None), 1)
    batch.controllers[:] = 0
    with pytest.raises(MatchError, match=r"seat \d, after 0 steps .*: bot odd answered"):
        batch.step()
    batch.controllers[:] = 2
    with pytest.raises(ValueError, match="a controller is no bot of this game: ids are 0 to 1"):
        batch.step()


def test_what_a_match_raises_itself_keeps_its_traceback() -> None:
    """A bug in somebody's game is theirs to see, with a note where it happened."""

    def step(self: Any, actions: Any) -> None:
        raise KeyError("board")

    with pytest.raises(KeyError) as caught:
        make(broken(step=step)).step()
    assert "broken row 0, after 1 steps" in caught.value.__notes__[0]


@pytest.mark.parametrize("player", [5, lambda: 0])
def test_a_player_that_cannot_be_asked_is_refused(player: Any) -> None:
    """What a maker of `Match.players` gives must take what is legal."""
    batch = make(broken(players={"odd": lambda match, seat, seed: player}), 1)
    batch.controllers[:] = batch.spec.bots.index("odd")
    with pytest.raises(MatchError, match=r"seat 0.*players\['odd'\] made .*, which must be a function of \(legal\)"):
        batch.step()
