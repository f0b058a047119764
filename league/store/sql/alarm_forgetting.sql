-- What the snapshots of a run scored against one fixed opponent or (NULL) all: bots, and older snapshots of the run.
WITH own AS (SELECT agent_id, min(step) AS step FROM snapshot WHERE run = $run GROUP BY agent_id),
met AS (
    SELECT seat0_agent AS agent_id, seat1_agent AS opponent, if(winner IS NULL, 0.5, 1.0 - winner) AS score
    FROM evaluation_game
    WHERE game_id = $game_id AND sampling = 'sample'
    UNION ALL
    SELECT seat1_agent, seat0_agent, if(winner IS NULL, 0.5, winner::DOUBLE)
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
