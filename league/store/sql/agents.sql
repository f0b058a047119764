-- The agents of one game.
SELECT game_id, agent_id, kind, name FROM agent WHERE game_id = $game_id ORDER BY agent_id;
