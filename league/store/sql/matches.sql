-- A run's matches of one kind, in key order.
SELECT
    run, kind, "update", "row", ordinal, game_id, seat0_agent, seat1_agent, seed, coalesce(winner, -1), end_reason,
    steps, ticks, sampling, update_begin, update_end, metrics, rewards
FROM match
WHERE run = $run AND kind = $kind
ORDER BY "update", "row", ordinal;
