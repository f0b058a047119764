-- name: runs
-- All runs, oldest first.
SELECT
    run, game, game_id, fingerprint, seed, stage, config, status, steps, "update", device, started_at, updated_at,
    parent, preset, game_address, game_version, game_sha256, id
FROM run
ORDER BY number, run;
