-- A run's training games in key order: the opponent, and the learner's score (1, 0.5 or 0).
SELECT
    if(seat0_agent = run, seat1_agent, seat0_agent) AS opponent,
    CASE WHEN winner IS NULL THEN 0.5 WHEN (winner = 0) = (seat0_agent = run) THEN 1.0 ELSE 0.0 END::DOUBLE AS score
FROM match
WHERE run = $run AND kind = 'training'
ORDER BY "update", "row", ordinal;
