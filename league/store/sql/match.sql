-- name: matches
-- A run's matches of one kind, in key order.
SELECT
    run, kind, "update", "row", ordinal, game_id, seat0_agent, seat1_agent, seed, coalesce(winner, -1) AS winner,
    end_reason, steps, ticks, sampling, update_begin, update_end, metrics, rewards, payoff, course
FROM match
WHERE run = $run AND kind = $kind
ORDER BY "update", "row", ordinal;

-- name: games_played
-- Matches of one kind, oldest first, and when they ended, of one run and game id or (NULL) all. A game that was played
-- before comes once, by the rule of `pair_counts`: without sampling, one of the same seats and seed; with it, one that
-- also had the same place and course.
SELECT
    run, kind, "update", "row", ordinal, game_id, seat0_agent, seat1_agent, seed, coalesce(winner, -1) AS winner,
    end_reason, steps, ticks, sampling, update_begin, update_end, map() AS metrics, map() AS rewards, payoff, course, finished_at
FROM (
    SELECT
        *,
        starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:') AS is_bots,
        if(is_bots, '', sampling) AS mode,
        CASE
            WHEN is_bots OR sampling = 'greedy' THEN NULL
            ELSE row("update", "row", ordinal, winner, steps, ticks)
        END AS game
    FROM match
    WHERE
        kind = $kind AND ($run::VARCHAR IS NULL OR run = $run)
        AND ($game_id::VARCHAR IS NULL OR game_id = $game_id)
)
QUALIFY
    row_number() OVER (
        PARTITION BY game_id, seat0_agent, seat1_agent, seed, mode, game
        ORDER BY coalesce(winner, -1), finished_at, run, "update", "row", ordinal
    ) = 1
ORDER BY finished_at, run, "update", "row", ordinal;

-- name: meetings
-- Evaluation rows of one game between each two agents, the lesser id first, whoever sat where.
SELECT least(seat0_agent, seat1_agent) AS a, greatest(seat0_agent, seat1_agent) AS b, count(*) AS games
FROM match
WHERE game_id = $game_id AND kind = 'evaluation'
GROUP BY a, b;

-- name: samplings
-- Evaluation rows of one game between agents that are not both bots, by how their nets chose.
SELECT sampling, count(*)
FROM match
WHERE game_id = $game_id AND kind = 'evaluation' AND NOT (starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:'))
GROUP BY sampling
ORDER BY sampling;

-- name: payoff
-- Cross table of a game's evaluation matches that are rated: what each agent won, drew and lost against each other one it
-- met, seats put together. With a run, only its snapshots and whoever they met; a NULL run means everybody.
WITH rated AS (
    SELECT seat0_agent, seat1_agent, winner
    FROM evaluation_game
    WHERE
        game_id = $game_id
        AND (sampling = 'sample' OR (starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:')))
),
met AS (
    SELECT seat0_agent AS agent, seat1_agent AS opponent, winner IS NULL AS drawn, winner = 0 AS won FROM rated
    UNION ALL
    SELECT seat1_agent, seat0_agent, winner IS NULL, winner = 1 FROM rated
),
own AS (SELECT agent_id FROM snapshot WHERE run = $run),
shown AS (SELECT agent_id FROM own UNION SELECT agent FROM met WHERE opponent IN (FROM own))
SELECT
    agent,
    opponent,
    count(*) FILTER (won) AS wins,
    count(*) FILTER (drawn) AS draws,
    count(*) FILTER (NOT won) AS losses
FROM met
WHERE $run::VARCHAR IS NULL OR (agent IN (FROM shown) AND opponent IN (FROM shown))
GROUP BY agent, opponent
ORDER BY agent, opponent;

-- name: training_games
-- Training games in key order of one run, or of all runs of one game, without those of lessons that were another game: the
-- run, the opponent, and the learner's score (1, 0.5 or 0) and payoff.
SELECT
    run,
    if(seat0_agent = run, seat1_agent, seat0_agent) AS opponent,
    CASE WHEN winner IS NULL THEN 0.5 WHEN (winner = 0) = (seat0_agent = run) THEN 1.0 ELSE 0.0 END::DOUBLE AS score,
    if(seat0_agent = run, payoff, -payoff) AS payoff
FROM match
SEMI JOIN run USING (run, game_id)
WHERE kind = 'training' AND ($run::VARCHAR IS NULL OR run = $run) AND ($game_id::VARCHAR IS NULL OR game_id = $game_id)
ORDER BY run, "update", "row", ordinal;

-- name: training_seats
-- A run's training games from either seat, without those of lessons that were another game: the learner's seat, and what
-- it won, drew and lost.
SELECT
    if(seat0_agent = run, 0, 1) AS seat,
    count(*) FILTER (winner = seat) AS wins,
    count(*) FILTER (winner IS NULL) AS draws,
    count(*) FILTER (winner <> seat) AS losses
FROM match
WHERE run = $run AND kind = 'training' AND game_id = (SELECT run.game_id FROM run WHERE run.run = $run)
GROUP BY seat
ORDER BY seat;

-- name: endings
-- How a run's training matches ended, in at most $points stretches of as many updates each: the stretch's last update, the
-- reason, and how many.
WITH stretch AS (
    SELECT greatest(1, ceil(max("update") / $points::DOUBLE))::BIGINT AS width
    FROM match
    WHERE run = $run AND kind = 'training'
)
SELECT max(max("update")) OVER (PARTITION BY "update" // width) AS until, end_reason, count(*) AS matches
FROM match, stretch
WHERE run = $run AND kind = 'training'
GROUP BY "update" // width, end_reason
ORDER BY until, end_reason;

-- name: reward_terms
-- What each reward term brought in a run's training matches, in the newest $last of them or (NULL) in all: its weight,
-- (the last one of a weight that moves), the matches, those in which it was not 0 for both seats, and the mean a match of the learner and of its opponents.
WITH finished AS (
    SELECT run, if(seat0_agent = run, 1, 2) AS seat, rewards
    FROM match
    WHERE run = $run AND kind = 'training'
    ORDER BY "update" DESC, "row" DESC, ordinal DESC
    LIMIT $last
),
brought AS (
    SELECT run, entry.key AS term, entry.value[seat] AS own, entry.value[3 - seat] AS other
    FROM (SELECT run, seat, unnest(map_entries(rewards)) AS entry FROM finished)
),
weights AS (
    SELECT run, (config -> 'rewards')::MAP(VARCHAR, JSON) AS rewards FROM run
),
moved AS (
    SELECT name, arg_max(value, "update") AS newest
    FROM metric
    WHERE run = $run AND starts_with(name, 'schedule/rewards.')
    GROUP BY name
)
SELECT
    term,
    coalesce(any_value(moved.newest), any_value(try_cast(weights.rewards[term] AS DOUBLE)), 0) AS weight,
    count(*) AS matches,
    count(*) FILTER (own <> 0 OR other <> 0) AS fired,
    coalesce(avg(own), 0.0) AS own, -- no value: of files that somebody else wrote
    coalesce(avg(other), 0.0) AS other
FROM brought
LEFT JOIN weights USING (run)
LEFT JOIN moved ON moved.name = 'schedule/rewards.' || term
GROUP BY term
ORDER BY abs(weight * avg(own)) DESC, term;
