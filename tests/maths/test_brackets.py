"""Double elimination: everybody but the champion loses twice, byes go to the best, brackets have the known sizes."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from league.maths.brackets import Fixture, double_elimination


def play(num_agents: int, winner_of: Callable[[Fixture], int]) -> tuple[int, list[list[Fixture]], Counter[int]]:
    """The champion, the rounds, and how often each agent lost, where `winner_of(fixture)` wins.

    Nobody may play twice in a round, or in a bracket where its losses do not belong.
    """
    rounds, losses = list[list[Fixture]](), Counter[int]()
    bracket = double_elimination(num_agents)
    fixtures = next(bracket)
    while True:
        rounds.append(fixtures)
        playing = [agent for x in fixtures for agent in (x.a, x.b)]
        assert len(set(playing)) == len(playing)
        if fixtures[0].bracket != "final":
            assert {losses[agent] for agent in playing} == {int(fixtures[0].bracket == "losers")}
        winners = [winner_of(x) for x in fixtures]
        losses.update(x.a + x.b - winner for x, winner in zip(fixtures, winners, strict=True))
        try:
            fixtures = bracket.send(winners)
        except StopIteration as end:
            return end.value, rounds, losses


@pytest.mark.parametrize("num_agents", range(2, 65))
def test_everybody_but_the_champion_loses_twice(num_agents: int) -> None:
    """With winners by lot."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        champion, rounds, losses = play(num_agents, lambda x, rng=rng: int(rng.choice([x.a, x.b])))  # type: ignore[misc]
        assert {losses[agent] for agent in range(num_agents) if agent != champion} == {2}
        assert losses[champion] <= 1 and sum(map(len, rounds)) == 2 * num_agents - 2 + losses[champion]


def test_the_best_seed_that_always_wins_stays_in_the_winners_bracket() -> None:
    """Of 8 with the better seed always winning: the textbook's rounds, and the second seed is the runner-up."""
    champion, rounds, losses = play(8, lambda x: min(x.a, x.b))
    assert champion == 0 and losses[0] == 0
    assert [(x[0].bracket, x[0].round, len(x)) for x in rounds] == [
        *(("winners", 1, 4), ("losers", 1, 2), ("winners", 2, 2), ("losers", 2, 2)),
        *(("losers", 3, 1), ("winners", 3, 1), ("losers", 4, 1), ("final", 1, 1)),
    ]
    assert {(x.a, x.b) for x in rounds[0]} == {(0, 7), (3, 4), (1, 6), (2, 5)}
    assert rounds[-1] == [Fixture("final", 1, 0, 1)]


@pytest.mark.parametrize("num_agents", range(2, 18))
def test_the_brackets_have_the_known_sizes(num_agents: int) -> None:
    """N - 1 matches in the winners' bracket, N - 2 in the losers'; the first round's byes are the best seeds'."""
    _, rounds, _ = play(num_agents, lambda x: min(x.a, x.b))
    sizes = Counter(x.bracket for fixtures in rounds for x in fixtures)
    assert sizes == Counter({"winners": num_agents - 1, "losers": num_agents - 2, "final": 1})
    size = 1 << (num_agents - 1).bit_length()
    waiting = set(range(num_agents)) - {agent for x in rounds[0] for agent in (x.a, x.b)}
    assert waiting == set(range(size - num_agents))


def test_who_comes_out_of_the_losers_bracket_must_win_the_final_twice() -> None:
    """The second seed of two loses the first match and wins the others."""
    results = iter([0, 1, 1])
    champion, rounds, losses = play(2, lambda x: next(results))
    assert champion == 1 and losses == Counter({0: 2, 1: 1})
    assert [(x[0].bracket, x[0].round) for x in rounds] == [("winners", 1), ("final", 1), ("final", 2)]
