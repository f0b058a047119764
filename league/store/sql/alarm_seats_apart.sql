-- Evaluation games of one game without one of the same seed and exchanged seats, between agents that met in both seatings:
-- the points of the first seat above their mean over all ways of dealing a pair's results to its seatings, the variance
-- of that, and the first seat's mean score against the same opponents. weight: of the difference of the two seatings.
WITH lone AS (
    SELECT
        sampling,
        least(seat0_agent, seat1_agent) AS a,
        greatest(seat0_agent, seat1_agent) AS b,
        seat0_agent < seat1_agent AS is_first,
        if(winner IS NULL, 0.5, if((winner = 0) = is_first, 1.0, 0.0)) AS points
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
