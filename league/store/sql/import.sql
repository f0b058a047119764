-- name: delete_stored_matches
-- Deletes the given matches that are evaluation matches of the store: same game, seats, seed, course, moment. Those of the
-- imports that are replaced do not count.
DELETE FROM given
WHERE EXISTS (
    SELECT 1 FROM match AS old
    WHERE
        old.kind = 'evaluation' AND NOT list_contains($replaced::VARCHAR[], old.run)
        AND given.game_id = old.game_id
        AND given.seat0_agent = old.seat0_agent
        AND given.seat1_agent = old.seat1_agent
        AND given.seed = old.seed
        AND given.winner IS NOT DISTINCT FROM old.winner
        AND given.steps = old.steps
        AND given.ticks = old.ticks
        AND given.sampling = old.sampling
        AND given.finished_at = old.finished_at
);

-- name: repeated_imports
-- The earlier imports of which the given matches have at least half of the games; the oldest first. Games are the
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
    FROM (FROM match UNION ALL FROM given) AS match
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

-- name: met_pairs
-- The pairs of different agents that have evaluation games in one game, the given ones included, the lesser id first.
SELECT DISTINCT least(seat0_agent, seat1_agent) AS a, greatest(seat0_agent, seat1_agent) AS b
FROM (FROM match UNION ALL FROM given)
WHERE game_id = $game_id AND kind = 'evaluation' AND seat0_agent <> seat1_agent
ORDER BY a, b;

-- name: imports
-- All imports, the oldest first.
SELECT run, sha256, file, matches, imported_at FROM import ORDER BY imported_at, run;
