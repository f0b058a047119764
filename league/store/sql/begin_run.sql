-- Inserts one run as the latest; no row comes back where the name is taken.
INSERT OR IGNORE INTO run (
    run, game, game_id, fingerprint, seed, stage, config, status, steps, "update", device, started_at, updated_at,
    parent, preset, number
)
VALUES (
    $run, $game, $game_id, $fingerprint, $seed, $stage, $config, $status, $steps, $update, $device,
    $started_at, $updated_at, $parent, $preset, (SELECT coalesce(max(number), 0) + 1 FROM run)
)
RETURNING run;
