-- name: write_metric
-- Inserts the metrics in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO metric BY NAME SELECT * FROM batch;

-- name: delete_metrics_after
-- Deletes a run's metrics past an update.
DELETE FROM metric WHERE run = $run AND "update" > $update;

-- name: metrics
-- A run's metrics that are of no one agent, or one of them ($name), update by update.
SELECT "update", steps, name, value
FROM metric
WHERE run = $run AND agent_id = '' AND ($name IS NULL OR name = $name)
ORDER BY "update", name;
