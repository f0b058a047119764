"""Games of OpenSpiel through the door: turns, both at once, chance, hidden cards; what they pay is what it pays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import league
from league.arena.games import enter, load_settings
from league.arena.networks import architecture_of
from league.envs import registry
from league.envs.adapters import openspiel, spieltrees
from league.envs.contract.check import check_match_batch
from league.errors import ConfigError
from league.maths.nashconv import nash_conv
from league.policies.actor_critic import ActorCritic
from league.policies.pointers import PointerActor
from league.snapshots.agent import Agent
from league.store.store import Store
from league.testing import check_policy
from league.types import DRAW, ActionSpec, GameSpec, ObservationPart, Turns
from tests.helpers.cases import cases
from tests.helpers.sizes import TINY

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


def test_the_cell_of_an_action_is_the_one_of_its_name() -> None:
    """Of Othello, whose names are columns by letter and rows by number from the top."""
    named = 0
    for spec, action, words, *_ in moves("othello", 100):
        if "pass" not in words:
            column, row = words.split("(")[-1].rstrip(")")[-2:] if "(" in words else words[-2:]
            assert spec.action.pointers[action] == (int(row) - 1) * 8 + "abcdefgh".index(column)
            named += 1
    assert named > 50


@pytest.mark.parametrize("name", ["connect_four", "dots_and_boxes", "pentago", "chess", "markov_soccer"])
def test_actions_whose_cells_cannot_be_shown_name_none(name: str) -> None:
    """Columns, edges, turned quadrants, a board seen by its mover, and moves of a player."""
    game = openspiel.open(name)
    spec = game.spec(game.Options())
    assert spec.action.pointers == () and spec.observation[0].kind == "image"


@pytest.mark.parametrize("name", ["oware", "kuhn_poker", "phantom_ttt", "gomoku"])
def test_tensors_of_fewer_axes_are_no_boards(name: str) -> None:
    """They stay numbers, one like the other."""
    game = openspiel.open(name)
    assert game.spec(game.Options()).observation is None


def test_boards_with_large_numbers_are_standardised_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `numbers` are standardised, so a board with large ones is no image; here 1 counts as large."""
    monkeypatch.setattr(openspiel, "LARGE", 0.5)
    game = openspiel.open("clobber")
    spec = game.spec(game.Options())
    assert spec.observation is None and spec.action.pointers == () and spec.unbounded == ((0, 90),)
    batch = batch_of("clobber", 1)
    batch.reset(1)
    assert batch.obs.shape == (1, 2, 92)


def test_a_trained_board_plays_alike_from_its_export(tmp_path: Path) -> None:
    """A run of convolutions with frozen nets in a stack; its snapshot and its export choose the same moves."""
    store, game = tmp_path / "league.duckdb", "openspiel:hex(board_size=3)"
    sets = [*TINY, "pool.snapshot_every=32", "run.evaluate_games=2"]
    run = league.train("smoke", env=game, overrides=sets, seed=3, store=store).run
    kept = league.load(run, store=store)
    league.export(run, tmp_path / "net", store=store)
    exported = Agent.load(tmp_path / "net")
    assert kept.policy.architecture.torso == "auto" and isinstance(kept.policy.actor, PointerActor)
    batch = batch_of("hex(board_size=3)", 4)
    batch.reset(1)
    for _ in range(3):
        moves = [agent.act(batch.obs[:, 0], batch.mask[:, 0], greedy=True) for agent in (kept, exported)]
        assert moves[0].tolist() == moves[1].tolist()
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, np.zeros((4, 2, 9)))
        batch.step()


@pytest.mark.parametrize(
    "shape", [(1, 7, 2), (5, 6, 1), (40, 30, 3)], ids=["one row", "no channels", "a large picture"]
)
def test_networks_of_boards_of_all_shapes_keep_their_contract(shape: tuple[int, int, int]) -> None:
    """Step as sequence, rows by themselves, gradients, a stack as each net; actions on cells and a pass."""
    image = ObservationPart("board", 0, shape, "image", bounds=(0.0, 1.0))
    num_cells = shape[0] * shape[1]
    cells = ActionSpec("discrete", (2 * num_cells + 1,), pointers=(*range(num_cells), *range(num_cells), -1))
    given = ("board", 1, image.size, (0, 0), (0.0, 1.0), cells, ("win",), (), ("over",), (), 1.0)
    spec = GameSpec(*given, observation=(image,))
    config, _ = load_settings("smoke", "fast", None, None, ["agent=small", "agent.opponent_encoder=false"])
    torch.manual_seed(0)
    check_policy(ActorCritic(architecture_of(config, spec)), spec, rows=3, steps=6)


def test_seats_are_fair() -> None:
    """Each seat is player 0 in half of the matches, by the seed."""
    batch = batch_of("kuhn_poker", 400)
    batch.reset(0)
    assert 150 < sum(match._swap for match in batch.matches) < 250


def test_kuhn_poker_is_worth_what_it_is_worth() -> None:
    """Uniform play of OpenSpiel's game pays player 0 what uniform play of ours does, 1/8 a match, within the error."""
    batch = batch_of("kuhn_poker", 200)
    rng, paid = np.random.default_rng(1), list[float]()
    batch.reset(1)
    sums = np.zeros((200, 2))
    for _ in range(60):
        swaps = np.array([match._swap for match in batch.matches])
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random((200, 2, 2)))
        batch.step()
        sums += batch.reward_terms[:, :, 0]
        for row in np.flatnonzero(batch.terminated):
            paid.append(float(sums[row, swaps[row]]))
            sums[row] = 0
    error = np.std(paid) / len(paid) ** 0.5
    assert len(paid) > 3_000 and abs(np.mean(paid) - 0.125) < 4 * error


def test_a_run_is_trained_stopped_and_found_again(tmp_path: Path) -> None:
    """By its address, in one call and from the store; its agents meet in an evaluation."""
    store = tmp_path / "league.duckdb"
    sets = [setting for setting in TINY if not setting.startswith("pool.snap")]
    result = league.train("smoke", env="openspiel:kuhn_poker", overrides=sets, store=store, run="k")
    row = Store.open(store).find_run("k")
    assert (result.status, row.game, row.source.address) == (
        "finished",
        "openspiel-kuhn_poker",
        "openspiel:kuhn_poker",
    )
    registry._leave("openspiel-kuhn_poker")
    assert league.evaluate("k", "bot:random", games=4, store=store, device="cpu").summary.games == 4


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
    """And OpenSpiel writes nothing of its own."""
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


def test_the_tree_shows_what_is_seen_in_play() -> None:
    """Each decision of random matches has a node with the same views up to it, the same legal actions, and pay."""
    tree = registry.tree(enter("openspiel:kuhn_poker"), {})
    assert tree is not None
    batch, rng = batch_of("kuhn_poker", 8), np.random.default_rng(0)
    batch.reset(0)
    paths = {tree.obs[i, :length].tobytes(): tree.legal[i] for i, length in enumerate(tree.length)}
    seen: dict[tuple[int, int], list[np.ndarray]] = {}
    met = set()
    for _ in range(200):
        for row, seat in np.argwhere(batch.to_act):
            path = seen.setdefault((row, seat), [])
            path.append(batch.obs[row, seat].copy())
            key = np.stack(path).tobytes()
            assert np.array_equal(batch.mask[row, seat], paths[key])
            met.add(key)
        batch.actions[..., 0] = [[rng.choice(np.flatnonzero(legal)) for legal in seats] for seats in batch.mask]
        batch.step()
        seen = {where: path for where, path in seen.items() if not batch.terminated[where[0]]}
    assert met == set(paths)


@pytest.mark.parametrize(
    ("name", "why"),
    [("matrix_rps", "decide at once"), ("connect_four", "no information states"), ("bargaining", "does not lose")],
)
def test_a_game_without_a_tree_says_why(name: str, why: str) -> None:
    """In one line."""
    with pytest.raises(ConfigError, match=f"openspiel:{name}: .*{why}"):
        registry.tree(enter(f"openspiel:{name}"), {})


def test_a_large_game_has_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up once it is known to be too large."""
    monkeypatch.setattr(spieltrees, "MOST_NODES", 57)
    with pytest.raises(ConfigError, match="openspiel:kuhn_poker: it has more than 57 nodes"):
        registry.tree(enter("openspiel:kuhn_poker"), {})
