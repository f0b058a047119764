-- Evaluation rows of one game between each two agents, the lesser id first, whoever sat where.
SELECT least(seat0_agent, seat1_agent) AS a, greatest(seat0_agent, seat1_agent) AS b, count(*) AS games
FROM match
WHERE game_id = $game_id AND kind = 'evaluation'
GROUP BY a, b;
