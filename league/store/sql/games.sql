-- Every game id in the store with its game's name (empty where no run tells), the latest run's first.
SELECT game_id, coalesce(max(game), '') AS game
FROM (
    SELECT game_id, game, number FROM run
    UNION ALL
    SELECT DISTINCT game_id, NULL, NULL FROM match
)
GROUP BY game_id
ORDER BY max(number) DESC NULLS LAST, game_id;
