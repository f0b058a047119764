-- Games of each ordered pair of agents: won by seat 0, drawn, won by seat 1. A NULL run means every run.
SELECT
    seat0_agent,
    seat1_agent,
    count(*) FILTER (winner = 0) AS wins,
    count(*) FILTER (winner IS NULL) AS draws,
    count(*) FILTER (winner = 1) AS losses
FROM match
WHERE game_id = $game_id AND kind = $kind AND ($run::VARCHAR IS NULL OR run = $run)
GROUP BY seat0_agent, seat1_agent
ORDER BY seat0_agent, seat1_agent;
