-- name: game
-- What is known of one game.
SELECT game_id, name, anchor, activity, utility, bound FROM game WHERE game_id = $game_id;

-- name: games
-- Every game id in the store with its game's name (empty where nothing tells), the latest run's first. Those that only
-- lessons of a run had are left out: nobody is rated in them.
SELECT game_id, coalesce(max(game), '') AS game
FROM (
    SELECT game_id, game, number FROM run
    UNION ALL
    SELECT DISTINCT match.game_id, game.name, NULL FROM match LEFT JOIN game ON game.game_id = match.game_id
    WHERE match.kind <> 'training' OR match.run NOT IN (SELECT run FROM run)
)
GROUP BY game_id
ORDER BY max(number) DESC NULLS LAST, game_id;
