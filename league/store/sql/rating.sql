-- name: pair_counts
-- Games of each two agents with nets that chose as $sampling: won, drawn and lost by a from seat 0 and from seat 1, and the
-- sums that `league.maths.pairs.SUMS` names. A NULL run means every run. A game between two bots has no sampling and
-- counts for either. One that was played before counts once: without sampling, the same seats and seed; with it, also the
-- same place and course (an evaluation repeated). Where all
-- games of a seating in which nobody sampled took one course, they are one game.
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
        payoff,
        seed,
        run IN (SELECT run FROM winner_first) AS is_unseated,
        starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:') AS is_bots,
        is_bots OR sampling = 'greedy' AS is_fixed,
        CASE
            WHEN is_fixed THEN hash(seat0_agent, seat1_agent, seed)
            ELSE hash(seat0_agent, seat1_agent, seed, "update", "row", ordinal, winner, steps, ticks)
        END AS game,
        course
    FROM match
    WHERE
        game_id = $game_id AND kind = $kind AND ($run::VARCHAR IS NULL OR run = $run)
        AND (sampling = $sampling OR is_bots) AND seat0_agent <> seat1_agent
),
alike AS (
    SELECT first, second, true AS is_alike
    FROM played
    WHERE is_fixed
    GROUP BY first, second
    HAVING count(*) > 1 AND count(course) = count(*) AND min(course) = max(course)
),
game AS (
    SELECT
        min(first) AS first,
        min(second) AS second,
        min(winner) AS winner,
        min(payoff) AS payoff,
        min(seed) AS seed,
        min(is_unseated) AS is_unseated
    FROM played LEFT JOIN alike USING (first, second)
    GROUP BY if(is_alike, hash(first, second), game)
),
seen AS (
    SELECT
        least(first, second) AS a,
        greatest(first, second) AS b,
        is_unseated,
        seed,
        first < second AS is_first,
        if(winner = -1, 0.5, if((winner = 0) = is_first, 1.0, 0.0)) AS score,
        if(is_first, payoff, -payoff) AS paid
    FROM game
),
cluster AS (
    SELECT
        a,
        b,
        is_unseated,
        count(*) AS games,
        count(*) FILTER (is_first) AS firsts,
        count(paid) AS paying,
        count(*) FILTER (is_first AND score = 1.0) AS wins0,
        count(*) FILTER (is_first AND score = 0.5) AS draws0,
        count(*) FILTER (is_first AND score = 0.0) AS losses0,
        count(*) FILTER (NOT is_first AND score = 1.0) AS wins1,
        count(*) FILTER (NOT is_first AND score = 0.5) AS draws1,
        count(*) FILTER (NOT is_first AND score = 0.0) AS losses1,
        coalesce(sum(paid), 0.0) AS payoff,
        games = 2 AND firsts = 1 AS is_pair,
        if(is_pair, sum(score) FILTER (is_first), 0.0) AS first,
        if(is_pair, sum(score) FILTER (NOT is_first), 0.0) AS second,
        if(is_pair, coalesce(sum(paid) FILTER (is_first) - sum(paid) FILTER (NOT is_first), 0.0) / 2, 0.0) AS ahead
    FROM seen
    GROUP BY a, b, is_unseated, seed
)
SELECT
    a,
    b,
    is_unseated,
    sum(wins0) AS wins0,
    sum(draws0) AS draws0,
    sum(losses0) AS losses0,
    sum(wins1) AS wins1,
    sum(draws1) AS draws1,
    sum(losses1) AS losses1,
    sum(games) AS games,
    count(*) AS clusters,
    sum(games * games) AS sizes,
    sum(2 * firsts - games) AS lead,
    sum(payoff) AS payoff,
    sum(payoff * payoff) AS square,
    sum(games * payoff) AS crossed,
    sum(ahead) AS ahead,
    sum(ahead * ahead) AS ahead_square,
    count(*) FILTER (is_pair) AS pairs,
    sum(first) AS first,
    sum(second) AS second,
    sum(first * first) AS first_square,
    sum(second * second) AS second_square,
    sum(first * second) AS product,
    sum(paying) AS paying
FROM cluster
GROUP BY a, b, is_unseated;

-- name: head_to_head
-- The games of two agents that `pair_counts` counts, in the order of play: whether $a sat first, the winner's seat, seat 0's
-- payoff, the seed.
WITH played AS (
    SELECT
        *,
        starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:') AS is_bots,
        is_bots OR sampling = 'greedy' AS is_fixed
    FROM match
    WHERE
        game_id = $game_id AND kind = 'evaluation' AND (sampling = $sampling OR is_bots)
        AND ((seat0_agent = $a AND seat1_agent = $b) OR (seat0_agent = $b AND seat1_agent = $a))
),
named AS (
    SELECT
        *,
        count(DISTINCT coalesce(course, hash(seed))) OVER (PARTITION BY seat0_agent) = 1 AS is_alike,
        CASE
            WHEN is_fixed AND is_alike THEN 0
            WHEN is_fixed THEN hash(seed)
            ELSE hash(seed, "update", "row", ordinal, winner, steps, ticks)
        END AS game
    FROM played
)
SELECT seat0_agent = $a AS is_first, coalesce(winner, -1) AS winner, payoff, seed
FROM named
QUALIFY
    row_number() OVER (
        PARTITION BY seat0_agent, game
        ORDER BY coalesce(winner, -1), finished_at, run, "update", "row", ordinal
    ) = 1
ORDER BY finished_at, run, "update", "row", ordinal;

-- name: seated
-- The hash of every agent that ever sat in a match.
SELECT agent_id, hash(agent_id) AS number
FROM (SELECT seat0_agent AS agent_id FROM match UNION SELECT seat1_agent FROM match)
ORDER BY agent_id;
