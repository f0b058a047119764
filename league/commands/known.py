"""The settings that there are, a game's own among them, for `league settings` and for completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from league.config.reference import SettingDoc


def known_settings(game: str | None) -> list[SettingDoc]:
    """Every setting with its bounds and meaning, of a registered game those of its own, too."""
    from league.config.reference import settings_of
    from league.envs import registry
    from league.envs.listing import reward_meanings

    if game is None:
        return list(settings_of())
    return list(settings_of(registry.options_model(game), reward_meanings(game)))
