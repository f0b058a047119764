-- name: write_replay
-- Inserts the replays in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO replay BY NAME SELECT * FROM batch;

-- name: replays
-- Matches that are kept whole, the newest first: of one run, of one game, between two agents whoever sat where, or
-- (NULL) of all.
SELECT replay.*
FROM replay
LEFT JOIN match USING (run, kind, "update", "row", ordinal)
WHERE
    ($run::VARCHAR IS NULL OR replay.run = $run)
    AND ($game_id::VARCHAR IS NULL OR replay.game_id = $game_id)
    AND (
        $first::VARCHAR IS NULL
        OR (replay.seat0_agent = $first AND replay.seat1_agent = $second)
        OR (replay.seat0_agent = $second AND replay.seat1_agent = $first)
    )
ORDER BY match.finished_at DESC NULLS LAST, run, "update" DESC, "row", ordinal
LIMIT $last;

-- name: delete_import_replays
-- Deletes the replays of an import.
DELETE FROM replay WHERE run = $run AND kind = 'evaluation';
