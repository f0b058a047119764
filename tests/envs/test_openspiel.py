"""Games of OpenSpiel through the door: turns, both at once, chance, hidden cards; what they pay is what it pays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from league.arena.games import enter
from league.envs import registry
from league.envs.adapters import openspiel, spieltrees
from league.envs.contract.check import check_match_batch
from league.errors import ConfigError
from league.maths.nashconv import nash_conv
from league.types import DRAW, Turns
from tests.helpers.cases import cases

pyspiel = pytest.importorskip("pyspiel")
GAMES = {
    "kuhn_poker": True,
    "tic_tac_toe": True,
    "goofspiel(num_cards=4)": False,
    "repeated_game(stage_game=matrix_rps(),num_repetitions=5,recall=1)": False,
    "leduc_poker": True,
    "connect_four": True,
    "liars_dice": True,
    "phantom_ttt": True,
    "oshi_zumo(coins=6)": False,
    "markov_soccer(horizon=20)": False,
}
"""Name -> whether it has turns."""
BOARDS = "tic_tac_toe", "connect_four", "markov_soccer(horizon=20)"


def batch_of(name: str, rows: int) -> Any:
    """A batch of a game."""
    game = openspiel.open(name)
    return game.make(rows, 1, game.Options())


@pytest.mark.parametrize("name", cases(*list(GAMES)[:3], slow=GAMES))
def test_games_keep_the_contract(name: str) -> None:
    """In turns where a player decides alone, else without."""
    assert isinstance(batch_of(name, 2), Turns) == GAMES[name]
    check_match_batch(lambda rows, threads: batch_of(name, rows), rows=3, steps=120)


@pytest.mark.parametrize("name", cases(*list(GAMES)[:4], slow=GAMES))
def test_a_match_is_the_one_that_openspiel_plays(name: str) -> None:
    """Replayed in OpenSpiel by its history: what is seen, what is legal, what is paid and who wins."""
    batch = batch_of(name, 6)
    rng, paid, checked = np.random.default_rng(0), np.zeros((6, 2)), 0
    batch.reset(3)
    for _ in range(60):
        matches, acting = batch.matches, getattr(batch, "to_act", np.ones((6, 2), bool))
        for row, match in enumerate(matches):
            state = match.game.deserialize_state(match._state.serialize())
            for seat in np.flatnonzero(acting[row]):
                player = match.player_of(int(seat))
                assert np.flatnonzero(batch.mask[row, seat]).tolist() == state.legal_actions(player)
                has_memory = match.game.get_type().provides_information_state_tensor
                tensor = np.array(
                    state.information_state_tensor(player) if has_memory else state.observation_tensor(player)
                )
                if name in BOARDS:  # their planes last
                    tensor = tensor.reshape(match.game.observation_tensor_shape()).transpose(1, 2, 0).ravel()
                seen = [*tensor, float(player == 0), float(player == 1)]
                assert batch.obs[row, seat].tolist() == pytest.approx(seen)
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random((6, 2, batch.spec.action.mask_size)))
        before = [(match._state.clone(), match._swap) for match in matches]
        actions = batch.actions.copy()
        batch.step()
        paid += batch.reward_terms[:, :, 0]
        for row in np.flatnonzero(batch.terminated):
            state, swap = before[row]
            if state.is_simultaneous_node():
                state.apply_actions([int(actions[row, player ^ swap, 0]) for player in range(2)])
            else:
                state.apply_action(int(actions[row, state.current_player() ^ swap, 0]))
            while state.is_chance_node():
                state.apply_action(state.legal_actions()[0])
            returns = [state.returns()[seat ^ swap] for seat in range(2)]
            winner = int(batch.result["winner"][row])
            assert winner == (DRAW if returns[0] == returns[1] else int(returns[1] > returns[0]))
            if name != "markov_soccer(horizon=20)":  # whose last step has chance in it
                assert paid[row].tolist() == pytest.approx(returns)
            paid[row] = 0
            checked += 1
    assert checked >= 6


def moves(name: str, decisions: int) -> Iterator[tuple[Any, int, str, npt.NDArray[Any], npt.NDArray[Any]]]:
    """(spec, action, its name in OpenSpiel, the mover's board before and after it) in random matches."""
    batch = batch_of(name, 1)
    board, rng = batch.spec.observation[0], np.random.default_rng(5)
    batch.reset(0)
    for _ in range(decisions):
        (seat,) = np.flatnonzero(batch.to_act[0])
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random((1, 2, batch.spec.action.num_draws)))
        before, state = board.of(batch.obs[0, seat]), batch.matches[0].state
        action = int(batch.actions[0, seat, 0])
        words = state.action_to_string(state.current_player(), action)
        batch.step()
        after = batch.final_obs if batch.terminated[0] else batch.obs
        yield batch.spec, action, words, before, board.of(after[0, seat])


@pytest.mark.parametrize(
    "name, kinds, passes",
    [
        ("clobber", 4, 0),
        ("clobber(rows=4,columns=7)", 4, 0),
        ("hex(board_size=5)", 1, 0),
        ("othello", 1, 1),
        ("breakthrough(rows=6,columns=6)", 12, 0),
        ("go(board_size=5)", 1, 1),
        ("tic_tac_toe", 1, 0),
        ("mnk(m=3,n=4,k=3)", 1, 0),
        ("amazons", 1, 0),
    ],
)
def test_the_cell_of_an_action_changes_where_it_is_played(name: str, kinds: int, passes: int) -> None:
    """Actions name cells, each as many times; the rest are passes."""
    game = pyspiel.load_game(name)
    planes, rows, columns = game.observation_tensor_shape()
    for spec, action, _, before, after in moves(name, 150):
        board, cells = spec.observation[0], spec.action.pointers
        assert board.kind == "image" and board.shape == (rows, columns, planes)
        assert [cells.count(cell) for cell in range(rows * columns)] == [kinds] * (rows * columns)
        assert cells.count(-1) == passes
        cell = cells[action]
        assert cell == -1 or (before != after).any(-1)[cell // columns, cell % columns]


@pytest.mark.parametrize("name", ["connect_four", "dots_and_boxes", "pentago", "chess", "markov_soccer"])
def test_actions_whose_cells_cannot_be_shown_name_none(name: str) -> None:
    """Columns, edges, turned quadrants, a board seen by its mover, and moves of a player."""
    game = openspiel.open(name)
    spec = game.spec(game.Options())
    assert spec.action.pointers == () and spec.observation[0].kind == "image"


def test_seats_are_fair() -> None:
    """Each seat is player 0 in half of the matches, by the seed."""
    batch = batch_of("kuhn_poker", 400)
    batch.reset(0)
    assert 150 < sum(match._swap for match in batch.matches) < 250


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("kuhn_pocker", "OpenSpiel has no game 'kuhn_pocker'; did you mean `kuhn_poker`"),
        ("kuhn_poker(players=3)", "it is for 3 players"),
        ("tic_tac_toe(x=1)", "Unknown parameter 'x'"),
        ("blackjack", "it is for 1 players"),
        ("nfg_game", r"mend its parameters, NAME\(key=value,...\): filename"),
        ("go(board_size=300)", "supports board size up to 19"),
        ("hex(board_size=0)", "it has fewer than two actions"),
        ("repeated_game(stage_game=matrix_rps(),num_repetitions=0)", "is over before anybody decides"),
        ("repeated_rps(x=2)", r"repeated_rps is short for repeated_game\("),
    ],
)
def test_what_cannot_be_played_is_one_line(rest: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        openspiel.open(rest)
    assert "\n" not in str(caught.value) and capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "nodes"), cases(("kuhn_poker", 58), ("leduc_poker", 9457), ("liars_dice(dice_sides=4)", 8181), slow=[])
)
def test_a_small_game_has_a_tree_on_which_nash_conv_is_openspiels(name: str, nodes: int) -> None:
    """Of random strategies, every information set of which is found by what is seen there."""
    policies = pytest.importorskip("open_spiel.python.policy")
    exploitability = pytest.importorskip("open_spiel.python.algorithms.exploitability")
    game, rng = pyspiel.load_game(name), np.random.default_rng(0)
    tree = registry.tree(enter(f"openspiel:{name}"), {})
    assert tree is not None and len(tree.parent) == nodes
    strategy = rng.random(tree.legal.shape) * tree.legal
    strategy /= strategy.sum(1, keepdims=True)
    index = {tree.obs[i, length - 1].tobytes(): i for i, length in enumerate(tree.length)}
    theirs = policies.TabularPolicy(game)
    for i, state in enumerate(theirs.states):
        player = state.current_player()
        seen = np.array([*state.information_state_tensor(player), player == 0, player == 1], np.float32)
        theirs.action_probability_array[i] = strategy[index[seen.tobytes()]]
    assert len(theirs.states) == len(tree.legal)
    assert nash_conv(tree, strategy).total == pytest.approx(exploitability.nash_conv(game, theirs), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "why"),
    [("matrix_rps", "decide at once"), ("connect_four", "no information states"), ("bargaining", "does not lose")],
)
def test_a_game_without_a_tree_says_why(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"openspiel:{name}: .*{why}"):
        registry.tree(enter(f"openspiel:{name}"), {})


def test_a_large_game_has_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spieltrees, "MOST_NODES", 57)
    with pytest.raises(ConfigError, match="openspiel:kuhn_poker: it has more than 57 nodes"):
        registry.tree(enter("openspiel:kuhn_poker"), {})
