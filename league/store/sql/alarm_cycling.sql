-- How the snapshots of a run, at these steps or (NULL) all, did against each other; wins and draws of the one at `step`.
WITH own AS (SELECT agent_id, min(step) AS step FROM snapshot WHERE run = $run GROUP BY agent_id)
SELECT
    least(a.step, b.step) AS step,
    greatest(a.step, b.step) AS other,
    count(*) AS games,
    count(*) FILTER ((winner = 0) = (a.step < b.step)) AS wins,
    count(*) FILTER (winner IS NULL) AS draws
FROM evaluation_game
JOIN own AS a ON a.agent_id = seat0_agent
JOIN own AS b ON b.agent_id = seat1_agent
WHERE
    game_id = $game_id AND sampling = 'sample'
    AND ($steps::BIGINT[] IS NULL OR (list_contains($steps, a.step) AND list_contains($steps, b.step)))
GROUP BY 1, 2
ORDER BY 1, 2;
