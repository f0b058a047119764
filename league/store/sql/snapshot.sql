-- name: snapshots
-- The snapshots of one run or (NULL) of all, each run's from its oldest on.
SELECT run, step, "update", agent_id, path, parent, fingerprint, created_at, pruned_at, is_historical
FROM snapshot
WHERE $run::VARCHAR IS NULL OR run = $run
ORDER BY run, step;

-- name: lineages
-- The snapshots of all runs of one game with what each was trained from, each run's from its oldest on.
SELECT run, agent_id, snapshot.parent
FROM snapshot
JOIN run USING (run)
WHERE run.game_id = $game_id
ORDER BY run, step;
