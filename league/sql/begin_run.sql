-- Inserts one run; no row comes back where the name is taken.
INSERT OR IGNORE INTO run
VALUES (
    $run, $game, $game_id, $fingerprint, $seed, $stage, $config, $status, $steps, $update, $device,
    $started_at, $updated_at, $parent
)
RETURNING run;
