-- name: alarm_training
-- The alarms that training raised over a run's updates, and those that are over, oldest first.
SELECT event.update, kind, message
FROM event
WHERE run = $run AND (starts_with(kind, 'alarm:') OR starts_with(kind, 'over:'))
ORDER BY happened_at;

-- name: alarm_forgetting
-- What the snapshots of a run scored against one fixed opponent or (NULL) all: bots, and older snapshots of the run.
WITH own AS (SELECT agent_id, min(step) AS step FROM snapshot WHERE run = $run GROUP BY agent_id),
met AS (
    SELECT seat0_agent AS agent_id, seat1_agent AS opponent, score
    FROM evaluation_game
    WHERE game_id = $game_id AND sampling = 'sample'
    UNION ALL
    SELECT seat1_agent, seat0_agent, 1.0 - score
    FROM evaluation_game
    WHERE game_id = $game_id AND sampling = 'sample'
)
SELECT
    coalesce($run || '@' || old.step, opponent) AS against,
    own.step AS step,
    count(*) AS games,
    sum(score) AS points,
    avg(score) AS score
FROM met
JOIN own ON own.agent_id = met.agent_id
LEFT JOIN own AS old ON old.agent_id = opponent
WHERE (old.step < own.step OR starts_with(opponent, 'bot:')) AND ($against::VARCHAR IS NULL OR against = $against)
GROUP BY against, own.step
ORDER BY against, own.step;

-- name: alarm_cycling
-- How the snapshots of a run, at these steps or (NULL) all, did against each other; wins and draws of the one at `step`.
WITH own AS (SELECT agent_id, min(step) AS step FROM snapshot WHERE run = $run GROUP BY agent_id)
SELECT
    least(a.step, b.step) AS step,
    greatest(a.step, b.step) AS other,
    count(*) AS games,
    coalesce(sum(if(a.step < b.step, score, 1.0 - score)) FILTER (payoff IS NOT NULL OR winner IS NOT NULL), 0.0) AS wins,
    count(*) FILTER (payoff IS NULL AND winner IS NULL) AS draws
FROM evaluation_game
JOIN own AS a ON a.agent_id = seat0_agent
JOIN own AS b ON b.agent_id = seat1_agent
WHERE
    game_id = $game_id AND sampling = 'sample'
    AND ($steps::BIGINT[] IS NULL OR (list_contains($steps, a.step) AND list_contains($steps, b.step)))
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: alarm_passivity
-- The newest training matches of a run, without those of lessons that were another game: how many ended by the clock, and
-- in how many the learner's metric of activity was 0. `with_activity` counts those that tell of it at all.
WITH newest AS (
    SELECT end_reason, metrics[$activity::VARCHAR][if(seat0_agent = run, 1, 2)] AS activity
    FROM match
    WHERE run = $run AND kind = 'training' AND game_id = (SELECT run.game_id FROM run WHERE run.run = $run)
    ORDER BY match.update DESC, match.row DESC, ordinal DESC
    LIMIT $last
),
clock AS (SELECT unnest(['time_limit', 'time', 'timeout', 'time_out']) AS end_reason)
SELECT
    count(*) AS matches,
    count(*) FILTER (end_reason IN (FROM clock)) AS time_outs,
    count(activity) AS with_activity,
    count(*) FILTER (activity = 0) AS idle,
    avg(activity) AS mean_activity
FROM newest;

-- name: alarm_seats
-- Pairs of evaluation games of one seed with the seats exchanged, of one game: how many there are, how many went to the
-- first and to the second seat (better than even in both games together), and the first seat's mean score.
WITH pair AS (
    SELECT
        a.score + b.score AS first_seat
    FROM evaluation_game AS a
    JOIN evaluation_game AS b
        ON a.run = b.run AND a.game_id = b.game_id AND a.seed = b.seed AND a.sampling = b.sampling
        AND a.seat0_agent = b.seat1_agent AND a.seat1_agent = b.seat0_agent
    WHERE a.game_id = $game_id AND a.seat0_agent < a.seat1_agent
)
SELECT
    count(*) AS pairs,
    count(*) FILTER (first_seat > 1) AS to_first,
    count(*) FILTER (first_seat < 1) AS to_second,
    avg(first_seat) / 2 AS first_seat_score
FROM pair;

-- name: alarm_seats_apart
-- Evaluation games of one game without one of the same seed and exchanged seats, between agents that met in both seatings:
-- the points of the first seat above their mean over all ways of dealing a pair's results to its seatings, the variance
-- of that, and the first seat's mean score against the same opponents. weight: of the difference of the two seatings.
WITH lone AS (
    SELECT
        sampling,
        least(seat0_agent, seat1_agent) AS a,
        greatest(seat0_agent, seat1_agent) AS b,
        seat0_agent < seat1_agent AS is_first,
        if(is_first, score, 1.0 - score) AS points
    FROM evaluation_game AS g
    WHERE
        game_id = $game_id
        AND NOT EXISTS (
            SELECT 1 FROM evaluation_game AS o
            WHERE
                o.run = g.run AND o.game_id = g.game_id AND o.seed = g.seed AND o.sampling = g.sampling
                AND o.seat0_agent = g.seat1_agent AND o.seat1_agent = g.seat0_agent
        )
),
met AS (
    SELECT
        count(*) AS n,
        count(*) FILTER (is_first) AS firsts,
        sum(points) FILTER (is_first) - firsts * avg(points) AS above,
        firsts * (n - firsts) / n AS weight,
        var_samp(points) AS scatter
    FROM lone
    GROUP BY sampling, a, b
    HAVING firsts BETWEEN 1 AND n - 1
)
SELECT
    count(*) AS pairs,
    coalesce(sum(n), 0)::BIGINT AS games,
    sum(above) AS excess,
    sum(weight * scatter) AS variance,
    sum(weight) AS weight,
    0.5 + sum(above) / sum(weight) / 2 AS first_seat_score
FROM met;
