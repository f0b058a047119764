"""Brawl's hidden styles: drawn from a match's seed, unseen, the same in both forms of the game, and worth knowing."""

import dataclasses

import numpy as np
import pytest

from league.envs import registry
from league.envs.brawl import env, styles
from league.envs.brawl.env import FIELDS, KEYS, Options, make
from league.envs.brawl.rules import BOTS
from league.envs.brawl.styles import FAVOURITES, RANGES, STANDARD, STYLES, WITHOUT
from league.envs.contract.check import check_match_batch
from league.errors import ConfigError
from tests.oracles.brawl import styles as oracle

STYLED = [BOTS.index(bot) for bot in BOTS if bot not in WITHOUT]
FIELD = {name: i for i, (name, *_) in enumerate(FIELDS)}
KEY = {name: i for i, name in enumerate(KEYS)}


def within(style: styles.Style) -> list[bool]:
    """Number by number: is it one of training?"""
    return [r.low <= getattr(style, name) <= r.high for name, r in RANGES.items()]


def test_training_draws_from_the_box_and_held_out_styles_lie_outside() -> None:
    """Training's numbers fill their ranges; each held-out style leaves the box, in half of its numbers on average."""
    assert list(RANGES) == [field.name for field in dataclasses.fields(styles.Style)]
    drawn = {how: [oracle.drawn(seed, 1, STYLES.index(how)) for seed in range(400)] for how in STYLES}
    assert set(drawn["off"]) == {STANDARD}
    assert all(all(within(style)) for style in drawn["train"])
    assert not any(all(within(style)) for style in drawn["held_out"])
    for name, r in RANGES.items():
        seen, strange = ([getattr(style, name) for style in drawn[how]] for how in ("train", "held_out"))
        span = r.high - r.low
        assert min(seen) < r.low + 0.05 * span and max(seen) > r.high - 0.05 * span, name
        assert r.far_low <= min(strange) and max(strange) <= r.far_high, name
        assert r.far_low == r.low or min(strange) < r.low, name
        assert r.far_high == r.high or max(strange) > r.high, name
        assert 0.4 < np.mean([not (r.low <= x <= r.high) for x in strange]) < 0.68, name
        assert r.far_low <= r.low < r.high <= r.far_high and (r.far_low < r.low or r.high < r.far_high), name
    liked = {how: {FAVOURITES[int(style.favourite)] for style in drawn[how]} for how in drawn}
    assert liked["train"] == set(FAVOURITES[:3]) and liked["held_out"] == set(FAVOURITES)


def test_the_contract_holds_with_styles() -> None:
    options = Options(bot_styles="train", time_limit_seconds=2.0, stocks=1, respawn_seconds=0.2)
    check_match_batch(lambda rows, threads=1: make(rows, threads, options), steps=150)


def test_nothing_that_is_seen_at_the_start_tells_a_style() -> None:
    """With and without styles a match begins the same: what is seen, what is legal, and its state."""
    shown = {how: make(32, 1, Options(bot_styles=how)) for how in ("off", "train", "held_out")}
    for batch in shown.values():
        batch.controllers[:, 1] = STYLED[1]
        batch.reset(4)
    for how in ("train", "held_out"):
        assert shown[how].obs.tobytes() == shown["off"].obs.tobytes()
        assert shown[how].mask.tobytes() == shown["off"].mask.tobytes()
        assert shown[how].get_state()[40:] == shown["off"].get_state()[40:]


def test_styles_make_another_game() -> None:
    ids = {how: registry.game_id("brawl", {"bot_styles": how}) for how in STYLES}
    assert ids["off"] == registry.game_id("brawl", {}) == "01ab9aaf409e1b89" and len(set(ids.values())) == 3
    assert "bot_styles" not in registry.check_options("brawl", {"bot_styles": "off"})
    assert len({env.options_hash(Options(bot_styles=how)) for how in STYLES}) == 3
    batch = make(8, 1, Options(bot_styles="train"))
    with pytest.raises(ValueError, match="game, version and options"):
        batch.set_state(make(8, 1, Options()).get_state())
    with pytest.raises(ConfigError, match=r"env\.bot_styles='some'.*'train' or 'held_out'"):
        registry.check_options("brawl", {"bot_styles": "some"})


def plan(batch: object, deed: str) -> None:
    """Seat 0 walks up to the opponent, returns when off the stage, and near the opponent does one thing alone."""
    obs, keys = batch.obs[:, 0], batch.actions[:, 0]  # type: ignore[attr-defined]
    keys[:] = 0
    across, above = obs[:, FIELD["to_other_x"]], obs[:, FIELD["to_other_y"]]
    x, y, rows = obs[:, FIELD["x"]] * 12, obs[:, FIELD["y"]] * 10, np.arange(len(obs))
    in_air = obs[:, FIELD["standing"]] == 0
    lost = in_air & ((y < 0) | (np.abs(x) > 7.4) | ((np.abs(x) < 1.2) & (y < 0.5)))
    to_the_left = np.where(lost, np.where(np.abs(x) > 1.2, x > 0, obs[:, FIELD["facing"]] < 0), across < 0)
    keys[rows, np.where(to_the_left, KEY["left"], KEY["right"])] = 1
    free = obs[:, FIELD["held_other"]] == 0
    keys[:, KEY["jump"]] = (lost & (obs[:, FIELD["vy"]] <= 0) | ~in_air & (np.abs(x) < 2.2) & (across * x < 0)) & free
    near = (np.abs(across) < 0.52) & (np.abs(above) < 0.47) & ~lost
    dodges = near & (obs[:, FIELD["dodge_cooldown"]] <= 0) & (deed == "dodge")
    keys[dodges] = 0
    keys[dodges, KEY["dodge"]] = 1
    keys[near & ~dodges, KEY["heavy" if deed == "heavy" else "light"]] = 1


def test_the_best_answer_differs_between_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who likes to strike is beaten by dodges and not by heavies, who likes to wait by heavies and not by dodges."""
    scores = {}
    for liked in ("light", "wait"):
        for name, value in {"favourite": FAVOURITES.index(liked) + 0.5, "habit": 0.7}.items():
            monkeypatch.setitem(RANGES, name, dataclasses.replace(RANGES[name], low=value, high=value))
        for deed in ("heavy", "dodge"):
            batch = make(200, 1, Options(bot_styles="train"))
            batch.controllers[:, 1] = BOTS.index("punisher")
            batch.reset(5)
            won, going = np.zeros(200), np.ones(200, bool)
            while going.any():
                plan(batch, deed)
                batch.step()
                ended = batch.terminated & going
                won[ended] = (1.0 - batch.result["winner"][ended]).clip(0, 1)
                going &= ~ended
            scores[liked, deed] = won.mean()
    assert scores["light", "dodge"] > scores["light", "heavy"] + 0.3
    assert scores["wait", "heavy"] > scores["wait", "dodge"] + 0.3
