-- All runs, oldest first.
SELECT
    run, game, game_id, fingerprint, seed, stage, config, status, steps, "update", device, started_at, updated_at,
    parent, preset
FROM run
ORDER BY number, run;
