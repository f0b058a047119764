-- name: begin_run
-- Inserts one run as the latest; no row comes back where the name is taken.
INSERT OR IGNORE INTO run (
    run, game, game_id, fingerprint, seed, stage, config, status, steps, "update", device, started_at, updated_at,
    parent, preset, game_address, game_version, game_sha256, number
)
VALUES (
    $run, $game, $game_id, $fingerprint, $seed, $stage, $config, $status, $steps, $update, $device,
    $started_at, $updated_at, $parent, $preset, $game_address, $game_version, $game_sha256,
    (SELECT coalesce(max(number), 0) + 1 FROM run)
)
RETURNING run;

-- name: extend_run
-- Sets a run going again, for a stage with its configuration; device and where its game came from (NULL: as before).
UPDATE run
SET
    stage = $stage,
    config = $config,
    fingerprint = $fingerprint,
    device = coalesce($device, device),
    game_address = coalesce($game_address, game_address),
    game_version = coalesce($game_version, game_version),
    game_sha256 = coalesce($game_sha256, game_sha256),
    status = 'running',
    updated_at = $updated_at
WHERE run = $run;

-- name: update_run
-- Sets what is not NULL of a run's progress.
UPDATE run
SET
    status = coalesce($status, status),
    steps = coalesce($steps, steps),
    "update" = coalesce($update, "update"),
    updated_at = $updated_at
WHERE run = $run;

-- name: runs
-- All runs, oldest first.
SELECT
    run, game, game_id, fingerprint, seed, stage, config, status, steps, "update", device, started_at, updated_at,
    parent, preset, game_address, game_version, game_sha256
FROM run
ORDER BY number, run;

-- name: run_names
-- Every name that rows of any kind stand under.
SELECT run FROM run UNION SELECT run FROM match UNION SELECT gate FROM gate UNION SELECT run FROM import UNION SELECT league FROM learner;
