-- name: begin_import
-- Inserts an import.
INSERT INTO import (run, sha256, file, matches, imported_at) VALUES ($run, $sha256, $file, $matches, $imported_at);

-- name: find_import
-- The import of a file of this content.
SELECT run, matches, imported_at FROM import WHERE sha256 = $sha256;

-- name: stored_matches
-- The matches of `batch`, by `row`, that are evaluation matches here: same game, seats, seed, course and moment.
SELECT batch."row"
FROM batch
SEMI JOIN match
    ON batch.game_id = match.game_id
    AND batch.seat0_agent = match.seat0_agent
    AND batch.seat1_agent = match.seat1_agent
    AND batch.seed = match.seed
    AND batch.winner = coalesce(match.winner, -1)
    AND batch.steps = match.steps
    AND batch.ticks = match.ticks
    AND batch.sampling = match.sampling
    AND batch.finished_at = match.finished_at
    AND match.kind = 'evaluation';

-- name: import_games
-- Games of earlier imports between agents that `batch` has, by what tells them apart; those without a time of their own
-- (they have the import's) have none here. Beside them how many the import has in all, its file and its moment.
SELECT
    run, import.matches, import.file, import.imported_at, game_id, seat0_agent, seat1_agent,
    coalesce(winner, -1) AS winner, sampling,
    if(finished_at >= imported_at - INTERVAL 1 MINUTE, NULL, finished_at) AS played_at, count(*) AS games
FROM match
JOIN import USING (run)
SEMI JOIN batch USING (game_id, seat0_agent, seat1_agent)
WHERE match.kind = 'evaluation'
GROUP BY ALL
ORDER BY imported_at, run;

-- name: delete_import
-- Deletes an import.
DELETE FROM import WHERE run = $run;

-- name: delete_import_matches
-- Deletes the matches of an import.
DELETE FROM match WHERE run = $run AND kind = 'evaluation';

-- name: delete_idle_imports
-- Deletes the agents from outside that no match has any more.
DELETE FROM agent
WHERE
    kind = 'import'
    AND NOT EXISTS (
        SELECT 1 FROM match
        WHERE match.game_id = agent.game_id AND (seat0_agent = agent.agent_id OR seat1_agent = agent.agent_id)
    );

-- name: met_pairs
-- The pairs of different agents that have evaluation games in one game, the lesser id first.
SELECT DISTINCT least(seat0_agent, seat1_agent) AS a, greatest(seat0_agent, seat1_agent) AS b
FROM evaluation_game
WHERE game_id = $game_id AND seat0_agent <> seat1_agent
ORDER BY a, b;

-- name: imports
-- All imports, the oldest first.
SELECT run, sha256, file, matches, imported_at FROM import ORDER BY imported_at, run;

-- name: import_game_ids
-- The games that an import has matches of.
SELECT DISTINCT game_id FROM match WHERE run = $run AND kind = 'evaluation' ORDER BY game_id;

-- name: delete_boards
-- Deletes the boards' ratings of a game, which the next look at the leaderboard writes again.
DELETE FROM rating WHERE run = '' AND game_id = $game_id;
