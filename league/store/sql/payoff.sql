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
