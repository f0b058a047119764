-- A run's snapshots, oldest first.
SELECT run, step, "update", agent_id, path, parent, fingerprint, created_at, pruned_at, is_historical
FROM snapshot
WHERE run = $run
ORDER BY step;
