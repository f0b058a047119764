-- Games of earlier imports between agents that `batch` has, by what tells them apart; those without a time of their own
-- (they have the import's) have none here. Beside them how many the import has in all, its file and its moment.
SELECT
    run, import.matches, import.file, import.imported_at, game_id, seat0_agent, seat1_agent, coalesce(winner, -1),
    sampling, if(finished_at >= imported_at - INTERVAL 1 MINUTE, NULL, finished_at) AS played_at, count(*)
FROM match
JOIN import USING (run)
SEMI JOIN batch USING (game_id, seat0_agent, seat1_agent)
WHERE match.kind = 'evaluation'
GROUP BY ALL
ORDER BY imported_at, run;
