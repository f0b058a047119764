-- Evaluation matches between two agents; a game that was played before comes once, by the rule of `pair_counts`.
CREATE VIEW evaluation_game AS
SELECT
    run, "update", "row", ordinal, game_id, seat0_agent, seat1_agent, seed, winner, end_reason, steps, ticks, sampling,
    finished_at, metrics
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
    WHERE kind = 'evaluation' AND seat0_agent <> seat1_agent
)
QUALIFY
    row_number() OVER (
        PARTITION BY game_id, seat0_agent, seat1_agent, seed, mode, course
        ORDER BY coalesce(winner, -1), finished_at, run, "update", "row", ordinal
    ) = 1;
