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
