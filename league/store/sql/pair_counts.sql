-- Games of each ordered pair of agents with nets that chose as $sampling: won by seat 0, drawn, won by seat 1. A NULL run
-- means every run. A game between two bots has no sampling and counts for either. One that was played before counts once:
-- without sampling, the same seats and seed; with it, also the same place and course (an evaluation repeated).
-- A file of at least $least decided matches that were all won by one seat names winners first (or last): it is not seated.
-- Agents stand as the hashes that `seated` names, in no order: grouping and sorting by 64 letters takes twice as long.
WITH winner_first AS (
    SELECT run
    FROM match
    WHERE game_id = $game_id AND kind = $kind AND run IN (SELECT run FROM import)
    GROUP BY run
    HAVING count(winner) >= $least AND min(winner) = max(winner)
),
played AS (
    SELECT
        hash(seat0_agent) AS first,
        hash(seat1_agent) AS second,
        coalesce(winner, -1) AS winner,
        run IN (SELECT run FROM winner_first) AS is_unseated,
        starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:') AS is_bots,
        CASE
            WHEN is_bots OR sampling = 'greedy' THEN hash(seat0_agent, seat1_agent, seed)
            ELSE hash(seat0_agent, seat1_agent, seed, "update", "row", ordinal, winner, steps, ticks)
        END AS game
    FROM match
    WHERE
        game_id = $game_id AND kind = $kind AND ($run::VARCHAR IS NULL OR run = $run)
        AND (sampling = $sampling OR is_bots)
),
game AS (
    SELECT min(first) AS first, min(second) AS second, min(winner) AS winner, min(is_unseated) AS is_unseated
    FROM played
    GROUP BY game
)
SELECT
    first,
    second,
    count(*) FILTER (winner = 0) AS wins,
    count(*) FILTER (winner = -1) AS draws,
    count(*) FILTER (winner = 1) AS losses,
    is_unseated
FROM game
GROUP BY first, second, is_unseated;
