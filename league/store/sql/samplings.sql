-- Evaluation rows of one game between agents that are not both bots, by how their nets chose.
SELECT sampling, count(*)
FROM match
WHERE game_id = $game_id AND kind = 'evaluation' AND NOT (starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:'))
GROUP BY sampling
ORDER BY sampling;
