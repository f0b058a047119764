-- name: write_rating
-- Inserts the ratings in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO rating BY NAME SELECT * FROM batch;

-- name: pair_counts
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

-- name: seated
-- The hash of every agent that ever sat in a match.
SELECT agent_id, hash(agent_id) AS number
FROM (SELECT seat0_agent AS agent_id FROM match UNION SELECT seat1_agent FROM match)
ORDER BY agent_id;

-- name: board_ratings
-- What a board wrote of its agents.
SELECT run, "update", system, agent_id, rating, lower, upper, games, game_id, sampling, prior, group_number
FROM rating
WHERE run = '' AND game_id = $game_id AND sampling = $sampling AND prior = $prior AND system = 'bradley_terry'
ORDER BY agent_id;

-- name: delete_board
-- Deletes the ratings that a board wrote, but for the learners' Elo, which is of no board alone.
DELETE FROM rating
WHERE run = '' AND game_id = $game_id AND sampling = $sampling AND prior = $prior AND system = 'bradley_terry';

-- name: delete_ratings_after
-- Deletes a run's ratings past an update.
DELETE FROM rating WHERE run = $run AND "update" > $update;
