-- Matches of one kind, oldest first, and when they ended, of one run and game id or (NULL) all. A game that was played
-- before comes once, by the rule of `pair_counts`: without sampling, one of the same seats and seed; with it, one that
-- also had the same place and course.
SELECT
    run, kind, "update", "row", ordinal, game_id, seat0_agent, seat1_agent, seed, coalesce(winner, -1), end_reason,
    steps, ticks, sampling, update_begin, update_end, map(), map(), finished_at
FROM (
    SELECT
        *,
        starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:') AS is_bots,
        if(is_bots, '', sampling) AS mode,
        CASE
            WHEN is_bots OR sampling = 'greedy' THEN NULL
            ELSE row("update", "row", ordinal, winner, steps, ticks)
        END AS course
    FROM match
    WHERE
        kind = $kind AND ($run::VARCHAR IS NULL OR run = $run)
        AND ($game_id::VARCHAR IS NULL OR game_id = $game_id)
)
QUALIFY
    row_number() OVER (
        PARTITION BY game_id, seat0_agent, seat1_agent, seed, mode, course
        ORDER BY coalesce(winner, -1), finished_at, run, "update", "row", ordinal
    ) = 1
ORDER BY finished_at, run, "update", "row", ordinal;
