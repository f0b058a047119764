-- Sets a run going again, for a stage with its configuration, on a device (NULL: as before).
UPDATE run
SET
    stage = $stage,
    config = $config,
    fingerprint = $fingerprint,
    device = coalesce($device, device),
    status = 'running',
    updated_at = $updated_at
WHERE run = $run;
