-- Sets a run going again, for a stage with its configuration.
UPDATE run
SET
    stage = $stage,
    config = $config,
    fingerprint = $fingerprint,
    status = 'running',
    updated_at = $updated_at
WHERE run = $run;
