-- name: begin_import
-- Inserts an import.
INSERT INTO import (run, sha256, file, matches, imported_at) VALUES ($run, $sha256, $file, $matches, $imported_at);

-- name: find_import
-- The import of a file of this content.
SELECT run, matches, imported_at FROM import WHERE sha256 = $sha256;

-- name: delete_stored_matches
-- Deletes the matches of an import that are evaluation matches of another name: same game, seats, seed, course, moment.
DELETE FROM match
WHERE
    run = $run AND kind = 'evaluation'
    AND EXISTS (
        SELECT 1 FROM match AS old
        WHERE
            old.kind = 'evaluation' AND old.run <> $run
            AND match.game_id = old.game_id
            AND match.seat0_agent = old.seat0_agent
            AND match.seat1_agent = old.seat1_agent
            AND match.seed = old.seed
            AND match.winner IS NOT DISTINCT FROM old.winner
            AND match.steps = old.steps
            AND match.ticks = old.ticks
            AND match.sampling = old.sampling
            AND match.finished_at = old.finished_at
    );

-- name: count_import
-- How many matches an import has.
SELECT count(*) FROM match WHERE run = $run AND kind = 'evaluation';

-- name: repeated_imports
-- The earlier imports of which the matches under $run have at least half of the games; the oldest first. Games are the
-- same by game, seats, winner and sampling (hashed to `key`), and by their times where both sides know these; one
-- without a time of its own has that of its import. In files without times equal games may be chance: which is why
-- the caller decides what to do.
WITH
game AS (
    SELECT
        match.run,
        hash(game_id, seat0_agent, seat1_agent, coalesce(winner, -1), sampling) AS key,
        if(finished_at >= coalesce(import.imported_at, $imported_at) - INTERVAL 1 MINUTE, NULL, finished_at) AS played_at,
        count(*) AS games
    FROM match
    LEFT JOIN import ON match.run = import.run
    WHERE match.kind = 'evaluation' AND (match.run = $run OR import.run IS NOT NULL)
    GROUP BY ALL
),
given AS (SELECT key, played_at, games FROM game WHERE run = $run),
earlier AS (SELECT * FROM game SEMI JOIN given USING (key) WHERE run <> $run),
timed AS (
    SELECT earlier.run, key, sum(least(earlier.games, given.games)) AS same
    FROM earlier
    JOIN given USING (key, played_at)
    GROUP BY ALL
),
old AS (
    SELECT
        run, key,
        coalesce(sum(games) FILTER (WHERE played_at IS NULL), 0) AS untimed,
        coalesce(sum(games) FILTER (WHERE played_at IS NOT NULL), 0) AS timed
    FROM earlier
    GROUP BY ALL
),
new AS (
    SELECT
        key,
        coalesce(sum(games) FILTER (WHERE played_at IS NULL), 0) AS untimed,
        coalesce(sum(games) FILTER (WHERE played_at IS NOT NULL), 0) AS timed
    FROM given
    GROUP BY ALL
),
shared AS (
    SELECT
        old.run,
        coalesce(timed.same, 0) + least(old.untimed, new.untimed)
        + least(greatest(old.untimed - new.untimed, 0), new.timed - coalesce(timed.same, 0))
        + least(greatest(new.untimed - old.untimed, 0), old.timed - coalesce(timed.same, 0)) AS games
    FROM old
    JOIN new USING (key)
    LEFT JOIN timed ON old.run = timed.run AND old.key = timed.key
)
SELECT import.run, sha256, file, matches, imported_at
FROM import
JOIN (SELECT run, sum(games) AS games FROM shared GROUP BY run) AS found USING (run)
WHERE 2 * found.games >= matches
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
