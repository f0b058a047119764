"""The classic games, matrix, Kuhn and Leduc poker: rules against plain Python, bots, seats, deals, states."""

import zlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from league.envs.arrays import GOLDEN, mix64
from league.envs.blob import HEADER
from league.envs.classic import kuhn, leduc, matrix, poker
from league.envs.classic.matrix import MatrixBatch, Options
from league.envs.classic.poker import CALL, FOLD, RAISE, WAIT, betting, deals
from league.maths.nashconv import nash_conv, uniform
from league.types import DRAW, EXTERNAL

GAMES = pytest.mark.parametrize("game", [kuhn, leduc], ids=["kuhn", "leduc"])
ALL = pytest.mark.parametrize("game", [matrix, kuhn, leduc], ids=["matrix", "kuhn", "leduc"])
ASYMMETRIC = [[3.0, -2.0], [0.5, 1.0]]


def play(batch: MatrixBatch, actions: list[tuple[int, int]]) -> None:
    """The same pair of actions in every row, one step each."""
    for pair in actions:
        batch.actions[:, :, 0] = pair
        batch.step()


def test_matrix_against_a_plain_python_reference() -> None:
    rounds, rng = 7, np.random.default_rng(1)
    batch = MatrixBatch(5, Options(payoff=ASYMMETRIC, bot_mix=[0.5, 0.5], rounds=rounds))
    for _ in range(6):
        actions = rng.integers(0, 2, size=(rounds, 5, 2))
        for pairs in actions:
            assert not batch.terminated.all()
            batch.actions[:, :, 0] = pairs
            batch.step()
        assert batch.terminated.all() and not batch.truncated.any()
        for row in range(5):
            total = sum(ASYMMETRIC[a][b] for a, b in actions[:, row])
            winner = 0 if total > 0 else 1 if total < 0 else DRAW
            result = batch.result[row]
            assert (result["winner"], result["ticks"], result["end_reason"]) == (winner, rounds, 0)
            assert result["metrics"][:, 0].tolist() == [np.float32(total), np.float32(-total)]
            shares = [np.float32(np.mean(actions[:, row, seat] == 0)) for seat in (0, 1)]
            assert result["metrics"][:, 1].tolist() == shares
            sign = 1 if winner == 0 else -1 if winner == 1 else 0
            assert batch.reward_terms[row, :, 1].tolist() == [sign, -sign]
        batch.terminated[:] = False


def test_continuing_game_is_cut_and_hides_its_length() -> None:
    """With continuing=True the last round truncates, and progress is not shown."""
    batch = MatrixBatch(1, Options(rounds=2, continuing=True))
    play(batch, [(1, 0)])
    assert batch.obs[0, 0].tolist() == [0, 1, 0, 0, 1, 0, 0, 0]
    play(batch, [(1, 0)])
    assert batch.truncated[0] and not batch.terminated[0]
    assert batch.spec.end_reasons[batch.result["end_reason"][0]] == "cut"
    assert batch.result["winner"][0] == 0


def test_random_numbers_are_splitmix64() -> None:
    """The first outputs for the seed 1234567 are those of the published reference implementation."""
    counters = np.arange(1, 4, dtype=np.uint64) * GOLDEN + np.uint64(1234567)
    assert mix64(counters).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


class Deal:
    """One deal as the rule books tell it; players 0 (acts first) and 1."""

    def __init__(self, cards: list[int], board: int, bets: tuple[int, ...], most_raises: int) -> None:
        self.cards, self.board, self.bets, self.most_raises = cards, board, bets, most_raises
        self.pot, self.round, self.mover, self.raises, self.acted = [1, 1], 0, 0, 0, 0
        self.gain: int | None = None  # player 0's, at the end

    def legal(self) -> set[int]:
        to_call = max(self.pot) - self.pot[self.mover]
        return {CALL} | ({FOLD} if to_call else set()) | ({RAISE} if self.raises < self.most_raises else set())

    def play(self, action: int) -> None:
        me, other = self.mover, 1 - self.mover
        self.acted += 1
        if action == FOLD:
            self.gain = self.pot[1] if other == 0 else -self.pot[0]
            return
        self.pot[me] = max(self.pot)
        if action == RAISE:
            self.pot[me] += self.bets[self.round]
            self.raises += 1
        elif self.acted >= 2:
            self.round, self.raises, self.acted = self.round + 1, 0, 0
            if self.round == len(self.bets):
                self.showdown()
            self.mover = 0
            return
        self.mover = other

    def showdown(self) -> None:
        strength = [(len(self.bets) == 2 and card == self.board, card) for card in self.cards]
        self.gain = 0 if strength[0] == strength[1] else self.pot[1] if strength[0] > strength[1] else -self.pot[0]


@GAMES
def test_deals_against_a_plain_python_reference(game: ModuleType) -> None:
    """Legal actions, payoffs, counts and the winner of 300 random matches of three deals are the reference's."""
    rng, rows, rules = np.random.default_rng(0), 300, game.RULES
    batch = game.make(rows, 1, game.Options(deals=3))
    batch.reset(1)
    ends, match = [], batch.match
    references = [
        Deal(match["cards"][r].tolist(), int(match["board"][r]), rules.bets, rules.raises) for r in range(rows)
    ]
    first, total, counts = match["first"].copy(), np.zeros(rows), np.zeros((rows, 2, 2))
    finished = np.zeros(rows, np.int64)
    while (finished < 3).any():
        playing = finished < 3
        for row in np.flatnonzero(playing):
            mover = first[row] if references[row].mover == 0 else 1 - first[row]
            assert set(np.flatnonzero(batch.mask[row, mover])) == references[row].legal()
            assert np.flatnonzero(batch.mask[row, 1 - mover]).tolist() == [WAIT]
        batch.actions[:, :, 0] = np.where(batch.mask, rng.random(batch.mask.shape), -1).argmax(axis=2)
        actions = batch.actions[:, :, 0].copy()
        batch.step()
        for row in np.flatnonzero(playing):
            reference = references[row]
            mover = first[row] if reference.mover == 0 else 1 - first[row]
            action = actions[row, mover]
            counts[row, mover] += (action == RAISE, action == FOLD)
            reference.play(action)
            gain = 0 if reference.gain is None else reference.gain * (1 if first[row] == 0 else -1)
            assert batch.reward_terms[row, :, 0].tolist() == [gain, -gain]
            total[row] += gain
            if reference.gain is None:
                assert not batch.terminated[row]
                continue
            finished[row] += 1
            assert batch.terminated[row] == (finished[row] == 3)
            first[row] = 1 - first[row]
            if finished[row] < 3:
                assert match["first"][row] == first[row]
                references[row] = Deal(match["cards"][row].tolist(), int(match["board"][row]), rules.bets, rules.raises)
            else:
                result = batch.result[row]
                assert result["winner"] == (DRAW if total[row] == 0 else 0 if total[row] > 0 else 1)
                assert batch.reward_terms[row, 0, 1] == np.sign(total[row])
                assert result["metrics"][:, 0].tolist() == [total[row], -total[row]]
                assert result["metrics"][:, 1:].tolist() == counts[row].tolist()
                ends.append(int(result["winner"]))
    assert set(ends) == {0, 1, DRAW}


@GAMES
def test_opponents_card_is_never_shown(game: ModuleType) -> None:
    """Changing the opponent's card, and the board before it is open, changes nothing that a seat sees or may do."""
    rng, rows = np.random.default_rng(1), 400
    batch = game.make(rows, 1, game.Options())
    two_rounds = len(game.RULES.bets) > 1
    opened = 0
    for _ in range(40):
        state = batch.get_state()
        match = batch.match
        seen, legal, own = batch.obs.copy(), batch.mask.copy(), match["cards"].copy()
        hidden = betting(game.RULES).round[match["node"]] == 0
        for player in (0, 1):
            seat = np.where(player == 0, match["first"], 1 - match["first"])
            for card in range(3):
                match["cards"][:, 1 - player] = card
                if two_rounds:
                    match["board"][hidden] = card
                batch.show()
                row = np.arange(rows)
                assert np.array_equal(batch.obs[row, seat], seen[row, seat])
                assert np.array_equal(batch.mask[row, seat], legal[row, seat])
            match["cards"][:] = own
            match["cards"][:, player] = (own[:, player] + 1) % 3
            batch.show()
            assert (batch.obs[row, seat] != seen[row, seat]).any(axis=1).all()  # while its own is
            batch.set_state(state)
        opened += int((~hidden).sum())
        batch.actions[:, :, 0] = np.where(batch.mask, rng.random(batch.mask.shape), -1).argmax(axis=2)
        batch.step()
    assert (opened > 0) == two_rounds


@GAMES
def test_seat_exchange_gives_the_exchanged_match(game: ModuleType) -> None:
    """Who acts first, streams, controllers and actions swapped: all that is seen and won is swapped, bit for bit."""
    one, other = (game.make(40, 1, game.Options(deals=2)) for _ in range(2))
    bots = len(one.spec.bots)
    one.controllers[:] = np.stack([np.arange(40) % (bots + 1) - 1, np.arange(40) % bots], axis=1)
    one.reset(5)
    other.reset(5)
    other.match["streams"] = other.match["streams"][:, ::-1].copy()
    other.match["first"] = 1 - other.match["first"]
    other.controllers[:] = one.controllers[:, ::-1]
    other.show()
    rng, ended = np.random.default_rng(2), np.zeros(40, bool)
    for _ in range(16):
        assert np.array_equal(one.obs[~ended], other.obs[~ended][:, ::-1])
        one.actions[:, :, 0] = np.where(one.mask, rng.random(one.mask.shape), -1).argmax(axis=2)
        other.actions[~ended] = one.actions[~ended][:, ::-1]
        other.actions[ended, :, 0] = other.mask[ended].argmax(axis=2)
        one.step()
        other.step()
        playing = ~ended
        assert np.array_equal(one.reward_terms[playing], other.reward_terms[playing][:, ::-1])
        over = one.terminated & playing
        assert np.array_equal(one.result["metrics"][over], other.result["metrics"][over][:, ::-1])
        ended |= one.terminated
    assert ended.all()


@GAMES
def test_deals_have_their_probabilities(game: ModuleType) -> None:
    """Over 60,000 matches every way to deal comes as often as the deck says, within 5 standard errors; who acts first
    too."""
    ranks, probability = deals(game.RULES)
    assert probability.sum() == pytest.approx(1.0)
    batch = game.make(60_000, 1, game.Options())
    batch.reset(7)
    match = batch.match
    dealt = np.concatenate([match["cards"], match["board"][:, None]], axis=1)
    share = np.array([(dealt == cards).all(axis=1).mean() for cards in ranks])
    assert share.sum() == pytest.approx(1.0)
    assert (np.abs(share - probability) <= 5 * np.sqrt(probability * (1 - probability) / 60_000)).all()
    assert abs(match["first"].mean() - 0.5) < 5 * 0.5 / np.sqrt(60_000)


def test_equilibrium_bot_cannot_be_beaten() -> None:
    """Kuhn's `nash` bot loses to no other bot, and wins from `random`, over 40,000 seat-fair matches."""
    for opponent in ("fold", "call", "random", "nash"):
        batch = kuhn.make(40_000, 1, kuhn.Options(bluff=0.3))
        names = batch.spec.bots
        batch.controllers[:] = names.index("nash"), names.index(opponent)
        batch.reset(11)
        gained, over = np.zeros(40_000), np.zeros(40_000, bool)
        for _ in range(3):
            batch.step()
            gained += np.where(over, 0, batch.reward_terms[:, 0, 0])
            over |= batch.terminated
        error = gained.std() / np.sqrt(40_000)
        assert over.all() and gained.mean() > -4 * error
        assert opponent != "random" or gained.mean() > 4 * error


@GAMES
def test_tree_of_several_deals_is_refused(game: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"env.deals=2: the tree is of one deal"):
        game.tree(game.Options(deals=2))


@ALL
@pytest.mark.parametrize(("name", "value"), [("actions", 4), ("actions", -1), ("controllers", 99), ("controllers", -2)])
def test_action_or_bot_that_does_not_exist_is_refused(game: ModuleType, name: str, value: int) -> None:
    batch = game.make(2, 1, game.Options())
    getattr(batch, name)[1, 1] = value
    with pytest.raises(ValueError, match=r"outside|no bot"):
        batch.step()
    batch.controllers[:] = EXTERNAL
    with pytest.raises(ValueError, match="one seed for each of 2 rows"):
        batch.reset(np.zeros(3, np.uint64))


@ALL
def test_damaged_state_is_refused(game: ModuleType) -> None:
    """Any flipped byte of a state, and a state of other options, is a ValueError; the batch stays as it was."""
    batch: Any = game.make(2, 1, game.Options())
    batch.step()
    state = batch.get_state()
    for place in range(0, len(state), 3):
        with pytest.raises(ValueError):
            batch.set_state(state[:place] + bytes([state[place] ^ 1]) + state[place + 1 :])
    assert batch.get_state() == state
    other = game.Options(**({"rounds": 3} if game is matrix else {"deals": 3}))
    with pytest.raises(ValueError, match="not of this game"):
        batch.set_state(game.make(2, 1, other).get_state())


MATRIX_FIELDS = [("round", -1), ("round", 10), ("last", 3), ("last", -2), ("payoff", np.nan), ("payoff", np.inf)]
MATRIX_FIELDS += [("first", -1), ("first", 9), ("controllers", 3), ("controllers", -2)]
DEAL_FIELDS = [("step", -1), ("deal", -1), ("deal", 1), ("first", 2), ("node", -1), ("node", 999), ("cards", 99)]
DEAL_FIELDS += [("cards", -1), ("board", 99), ("payoff", np.nan), ("counts", -1), ("controllers", 99)]


@pytest.mark.parametrize(
    ("game", "field", "value"),
    [
        *((matrix, *case) for case in MATRIX_FIELDS),
        *((game, *case) for game in (kuhn, leduc) for case in DEAL_FIELDS),
    ],
)
def test_impossible_state_with_a_right_checksum_is_refused(game: ModuleType, field: str, value: float) -> None:
    """A blob that only a forger makes is refused by the field's name, and the batch stays as it was."""
    batch: Any = game.make(2, 1, game.Options())
    batch.step()
    whole, dtype = batch.get_state(), (matrix if game is matrix else poker).MATCH
    body = bytearray(whole[HEADER.size :])
    if field == "controllers":
        np.frombuffer(body, np.int16, offset=2 * dtype.itemsize)[1] = value
    else:
        np.frombuffer(body, dtype, count=2)[field][1] = value
    with pytest.raises(ValueError, match=f"`{field}`"):
        batch.set_state(HEADER.pack(*HEADER.unpack_from(whole)[:3], zlib.crc32(body)) + body)
    assert batch.get_state() == whole


@GAMES
def test_mean_payoff_of_random_bots_is_the_trees(game: ModuleType) -> None:
    """Two `random` bots: who acts first wins the exact value of uniform play, within 5 standard errors."""
    batch = game.make(30_000, 1, game.Options())
    batch.controllers[:] = batch.spec.bots.index("random")
    batch.reset(3)
    first, gained = batch.match["first"].copy(), np.full(30_000, np.nan)
    for _ in range(10):
        batch.step()
        new = batch.terminated & np.isnan(gained)
        gained[new] = np.where(first == 0, 1, -1)[new] * batch.reward_terms[new, 0, 0]
    tree = game.tree(game.Options())
    assert not np.isnan(gained).any()
    assert abs(gained.mean() - nash_conv(tree, uniform(tree)).value) < 5 * gained.std() / np.sqrt(30_000)
