-- name: write_metric
-- Inserts the metrics in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO metric BY NAME SELECT * FROM batch;

-- name: delete_metrics_after
-- Deletes a run's metrics past an update.
DELETE FROM metric WHERE run = $run AND "update" > $update;
