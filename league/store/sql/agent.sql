-- name: write_agent
-- Inserts the agents in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO agent BY NAME SELECT * FROM batch;

-- name: agents
-- The agents of one game.
SELECT game_id, agent_id, kind, name, address, version, sha256, thing FROM agent WHERE game_id = $game_id ORDER BY agent_id;

-- name: agent_games
-- Matches of either kind that each agent of one game sat in.
SELECT agent_id, count(*) AS games
FROM (
    SELECT seat0_agent AS agent_id FROM match WHERE game_id = $game_id
    UNION ALL
    SELECT seat1_agent FROM match WHERE game_id = $game_id
)
GROUP BY agent_id;

-- name: delete_agents_after
-- Deletes the agents whose only snapshots are this run's past an update, so that no name stands for two agents.
DELETE FROM agent
WHERE
    kind = 'snapshot'
    AND agent_id IN (SELECT agent_id FROM snapshot WHERE run = $run AND "update" > $update)
    AND agent_id NOT IN (SELECT agent_id FROM snapshot WHERE run <> $run OR "update" <= $update);
