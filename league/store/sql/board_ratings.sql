-- What a board wrote of its agents.
SELECT run, "update", system, agent_id, rating, lower, upper, games, game_id, sampling, prior, group_number
FROM rating
WHERE run = '' AND game_id = $game_id AND sampling = $sampling AND prior = $prior AND system = 'bradley_terry'
ORDER BY agent_id;
