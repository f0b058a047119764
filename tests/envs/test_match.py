"""Matches in plain Python: every kind of action and observation, states, options, and what bad ones are told."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from league.envs import Match, MatchError, registry
from league.envs.contract.check import check_match_batch
from league.envs.drawing import Drawing, problem_of
from league.envs.matches.rows import ENDLESS, RowBatch, TurnRowBatch
from league.errors import ConfigError, UsageError
from league.types import DRAW, ActionSpec, ObservationPart, Turns
from tests.helpers.matches import Auction, Dance, Darts, Grid, Hands, Keys, OpenHands, Waltz

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
GAMES += [Darts, Dance, Waltz, OpenHands]


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
    assert batch.actions.dtype == batch.spec.action.dtype
    check_match_batch(lambda rows, threads: make(match, rows), steps=40 if batch.spec.action.has_real else 120, rows=3)


def has_four(grid: Any, seat: int) -> bool:
    """The slow reference: every line of four cells of the (7, 6) grid, looked at one by one."""
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


def broken(base: type[Match] = RPS.RockPaperScissors, **attributes: Any) -> type[Match]:
    """`base` with something wrong about it."""
    return type("Broken", (base,), {"name": "broken", **attributes})


BAD_CLASSES: list[tuple[dict[str, Any], str]] = [
    *(({"obs_size": size}, f"obs_size={size!r} must be") for size in ("6", 6.5, 10**12, 0)),
    *(({"action": action}, f"action={action!r} must be") for action in (10**9, 3.0, None, 1, ())),
    ({"obs_range": 5}, "obs_range=5 must be"),
    ({"obs_range": (1, 0)}, "obs_range=(1, 0) must be the least and a greater number"),
    ({"opponent_slice": 3}, "opponent_slice=3 must be"),
    ({"reward_terms": "win"}, "reward_terms='win' must be"),
    *(({"end_reasons": given}, f"end_reasons={given!r} must be") for given in (None, ())),
    *(({"max_steps": given}, f"max_steps={given!r} must be") for given in ("12", 0)),
    ({"bots": [1]}, "bots=[1] must be"),
    ({"bots": {"a": 5}}, "bots['a']=5 must be"),
    ({"bots": {"a": lambda legal: 0}}, "bots['a'] is called with (observation, legal, rng), and takes (legal)"),
    ({"players": {"a": lambda match: 0}}, "players['a'] is called with (match, seat, seed), and takes (match)"),
    ({"observation": 5}, "observation=5 must be"),
    ({"unbounded": 5}, "unbounded=5 must be"),
    ({"action_names": 5}, "action_names=5 must be"),
    *(
        ({name: lambda self: None}, f"{name} is called with ({argument}), and takes ()")
        for name, argument in {
            "reset": "rng",
            "observe": "seat",
            "play": "action",
            "drawing": "seat",
            "step": "actions",
            "legal": "seat",
        }.items()
    ),
    ({"legal": [0, 1, 2]}, "legal=[0, 1, 2] must be"),
    ({"action": ActionSpec("legal_tuples", (3,), 3)}, "legal tuples need a method legal(seat)"),
    ({"step": Match.step}, "has neither step(actions) nor"),
    ({"observe": Match.observe}, "class Broken has no method observe()"),
    ({"layout": [("a", 0, 6)]}, "layout=[('a', 0, 6)] must be"),
    ({"layout": (ObservationPart("a", 0, (9,)),)}, "layout ends at 9, not at obs_size=6"),
    ({"anchor": "nobody"}, "anchor='nobody' is none of"),
    ({"__init__": lambda self, size: None}, "`size` of __init__ needs a default"),
    ({"__init__": lambda self, how=print: None}, "`how` of __init__ is <built-in function print> by default"),
    ({"base": Darts, "legal": lambda self, seat: [0]}, "every number within a box's bounds is legal"),
    ({"base": Darts, "observation": (ObservationPart("a", 0, (2,)),)}, "parts have 2 numbers together, obs_size=4"),
    ({"base": Darts, "observation": (3,), "obs_size": 0}, "must be a tuple of ObservationPart"),
]


def seen(value: Any) -> dict[str, Any]:
    return {"observe": lambda self, seat: value}


def lawful(value: Any) -> dict[str, Any]:
    return {"legal": lambda self, seat: value}


def stepped(does: Any) -> dict[str, Any]:
    return {"step": lambda self, actions: does(self)}


BAD_PLAY: list[tuple[dict[str, Any], str]] = [
    ({"observe": lambda self, seat: [0.0] * (6 - seat)}, "seat 1, after 0 steps .*observe gave 5 numbers"),
    (seen(1.0), "observe gave 1 numbers"),
    (seen(None), "observe gave None"),
    (seen([10**400] * 6), "observe gave .*which is not 6 numbers"),
    (seen(["a"] * 6), "observe gave .*which is not 6 numbers"),
    ({"observe": lambda self, seat: [0, 0, 0, 0, 2 * seat, 0]}, r"row 0, seat 1.*obs\[4\].* is 2.0, outside obs_range"),
    (seen([float("nan")] * 6), r"obs\[0\].* is nan, not a finite number"),
    (lawful([]), "legal gave no action"),
    (lawful([0, 3]), "legal gave .*, of which 3 is no action"),
    (lawful([True, False, True]), "legal gave .*, a mask"),
    (lawful([1, 0, 1]), "legal gave .*, one twice, as in a mask; it must be a list"),
    (lawful(2), "legal gave 2; it must be"),
    ({"legal": lambda self, seat: (x for x in (0, 1))}, "legal gave <generator .*; it must be a list"),
    (lawful([0.5]), "legal gave .*; it must be"),
    (lawful("01"), r"legal gave \['0', '1'\]; it must be"),
    (stepped(lambda match: match.end(2)), r"end\(winner=2\): must be"),
    (stepped(lambda match: match.end(0, "tired")), r"end\(reason='tired'\): must be"),
    (stepped(lambda match: (match.end(0), match.end(1))), r"after 1 steps .*end\(\) is called a second time"),
    (stepped(lambda match: match.reward(0, "gold")), r"reward\(0, 'gold'\) must name"),
    (stepped(lambda match: match.reward(0, "win")), "`win` is given by"),
    *(
        (
            {"reward_terms": ("gold",), **stepped(lambda match, amount=amount: match.reward(1, "gold", amount))},
            r"reward\(1, 'gold'\) is of .*, which is no number",
        )
        for amount in (None, "1", [1.0, 2.0])
    ),
    (
        {"metrics": ("moves",), **stepped(lambda match: (match.measure(1, "moves", None), match.end(0)))},
        r"measure\(1, 'moves'\) is of .*, which is no number",
    ),
    ({"reset": lambda self, rng: self.end(0)}, r"reset\(\) ends the match"),
    ({"max_steps": None, **stepped(lambda match: None)}, f"after {ENDLESS} steps .*is still not over"),
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
        *(
            (
                broken(CONNECT4.ConnectFour, play=lambda self, _, who=who: setattr(self, "to_move", who)),
                f"to_move={who} must be",
            )
            for who in (2, None)
        ),
        (broken(Keys, **lawful([0, 0, 3])), "legal gave .*, of which 3 is no action"),
        (broken(Grid, **lawful([[0, 1]])), "legal gave 1 lists; it must be a list .* each of 2 parts"),
        (broken(Grid, **lawful([[0, 1], []])), "legal gave no choice for part 1"),
        (broken(Hands, **lawful([(0, 0)] * 2)), "legal gave 2 tuples, 1 different"),
        (broken(Hands, **lawful([(0, 2)])), r"legal gave \(0, 2\); it must be a list of at most 8"),
        (broken(Grid, step=lambda self, a: (self.measure(0, "x"), self.end(0))), r"measure\(0, 'x'\) must name"),
        (broken(Darts, **seen({"a": 1})), "observe gave a dict, but the class names no parts"),
        (
            broken(Dance, **seen({"floor": 1})),
            "a dict of floor; its parts are floor, shoes, time",
        ),
        (
            broken(Dance, **seen({"floor": [1], "shoes": [1, 1], "time": 0})),
            r"gave 1 numbers as part 'floor'; \(2, 3, 1\) has 6",
        ),
        (
            broken(Dance, **seen({"floor": [0] * 6, "shoes": [1, 0.5], "time": 0})),
            r"row 0, seat 0, .*part 'shoes' has 0.5; its tokens are whole numbers from 0 to 4",
        ),
        (
            broken(Dance, **seen({"floor": "abc", "shoes": [1, 1], "time": 0})),
            "gave a part 'floor' that is no array of numbers",
        ),
        (broken(Dance, **lawful({"mvoe": [0]})), "legal gave .*; it must be a dict of move, aim, rest"),
        (broken(Dance, **lawful({"move": []})), "legal gave no action"),
        (broken(Dance, **lawful({"aim": [0.0]})), "for real numbers, which are all legal; give None"),
        (broken(Dance, **lawful({"rest": [None]})), "it must be one for each of 2 parts"),
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
    ("base", "answer", "rule"),
    [
        *((base, answer, "") for base, answer in ((RPS.RockPaperScissors, 3), (RPS.RockPaperScissors, True))),
        *((base, answer, "") for base, answer in ((Grid, (0,)), (Keys, (2, 0, 0)), (Hands, "x"))),
        (Darts, 0.5, "must be 2 real numbers"),
        *((Darts, (0.5, number), "is not within the bounds") for number in (3.5, float("nan"))),
        (Dance, {"move": 0, "aim": (0.0,)}, "must be a dict of move, aim, rest"),
        (Dance, {"move": 4, "aim": (0.0,), "rest": ([0, 0], [0, 0])}, "4, where .* are legal"),
    ],
)
def test_a_bot_that_answers_what_is_not_legal_is_named(base: type[Match], answer: Any, rule: str) -> None:
    """With its seat and its answer."""
    batch = make(broken(base, bots={"odd": lambda observation, legal, rng: answer}, anchor=None), 1)
    batch.controllers[:] = 0
    with pytest.raises(MatchError, match=rf"seat \d, after 0 steps .*: bot odd answered .*{rule}"):
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


def test_a_mixture_reaches_the_match_by_name() -> None:
    """Illegal choices become legal ones, real numbers stay, and what a dict leaves out is all legal."""
    batch = make(Dance, 1)
    match, seen = cast(Any, batch.matches[0]), []
    match.step = lambda actions: (seen.append(actions), Dance.step(match, actions))
    batch.reset(0)
    for _ in range(2):
        batch.actions[:] = [3, 0.5, 1, 1, 1, 2]
        batch.step()
    move = 1 + int(match.shoes[0, 0]) % 3
    assert seen[0][0] == {"move": 3, "aim": (0.5,), "rest": ((1, 1), (1, 2))}
    assert seen[1][0] == {"move": 3 if move == 3 else 0, "aim": (0.5,), "rest": ((0, 1), (1, 2))}
    assert batch.mask is not None and batch.mask.all() and match.made == 2
    batch.actions[0, 0] = [1.5, 0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match=r"actions have \[1.5\] where choices are whole numbers"):
        batch.step()
    batch.actions[0, 0] = [1, 1.5, 0, 0, 0, 0]
    with pytest.raises(ValueError, match=r"\[1.5\] is not within the bounds"):
        batch.step()
    assert match.made == 2  # nothing has moved


def test_states_of_spaces_hold_what_was_played_to_the_last_digit() -> None:
    """Real numbers and dicts come back from a state as they were; a state with others is refused."""
    batch, other = make(Dance), make(Dance)
    batch.controllers[:2] = 1
    rng = np.random.default_rng(0)
    for _ in range(3):
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random((4, 2, batch.spec.action.num_draws)))
        batch.step()
    state = batch.get_state()
    other.set_state(state)
    assert other.get_state() == state and [r.log for r in other._rows] == [r.log for r in batch._rows]
    assert any(type(row.log[0][0]["aim"][0]) is float for row in batch._rows if row.log)
    for stored in ([4, [0.0], [[0, 0], [0, 0]]], {"move": 4, "aim": [0.0], "rest": [[0, 0], [0, 0]]}, {"move": 1}):
        with pytest.raises(ValueError):
            batch._choices.read(stored)


@pytest.mark.parametrize("view", [(0,), (0, 0, 4, 4, 4), (0, 0, 0, 4), (0, 0, float("nan"), 4)])
def test_a_drawing_shows_an_area(view: Any) -> None:
    """Of four finite numbers."""
    assert "must be (left, top, right, bottom) of an area" in problem_of(Drawing(view))
    assert problem_of(Drawing((0, 4, 4, 0))) == ""


@pytest.mark.parametrize("colour", ["red", 7, (None, 0, 0)])
def test_a_colour_is_numbers(colour: Any) -> None:
    """What is none is named."""
    seen = Drawing((0, 0, 4, 4))
    seen.oval((1, 1), (1, 1), colour)
    with pytest.raises(TypeError, match=re.escape(f"the colour {colour!r} must be numbers from 0 to 255")):
        problem_of(seen)
