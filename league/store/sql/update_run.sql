-- Sets what is not NULL of a run's progress.
UPDATE run
SET
    status = coalesce($status, status),
    steps = coalesce($steps, steps),
    "update" = coalesce($update, "update"),
    updated_at = $updated_at
WHERE run = $run;
