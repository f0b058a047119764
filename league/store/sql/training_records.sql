-- A run's training games against each opponent: won, drawn and lost by the learner.
SELECT
    if(seat0_agent = run, seat1_agent, seat0_agent) AS opponent,
    count(*) FILTER (winner IS NOT NULL AND (winner = 0) = (seat0_agent = run)) AS wins,
    count(*) FILTER (winner IS NULL) AS draws,
    count(*) FILTER (winner IS NOT NULL AND (winner = 0) <> (seat0_agent = run)) AS losses
FROM match
WHERE run = $run AND kind = 'training'
GROUP BY opponent
ORDER BY opponent;
