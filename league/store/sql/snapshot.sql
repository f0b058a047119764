-- name: write_snapshot
-- Inserts the snapshots in `batch`, or replaces those of the same run and step.
INSERT OR REPLACE INTO snapshot BY NAME SELECT * FROM batch;

-- name: name_snapshots
-- Makes an agent, named RUN@STEP, of every snapshot that is none yet.
INSERT OR IGNORE INTO agent (game_id, agent_id, kind, name)
SELECT run.game_id, snapshot.agent_id, 'snapshot', snapshot.run || '@' || snapshot.step
FROM snapshot
JOIN run USING (run)
ORDER BY run.number, snapshot.run, snapshot.step;

-- name: prune_snapshots
-- Marks snapshots of a run as pruned; one that was marked before keeps its time.
UPDATE snapshot
SET pruned_at = coalesce(pruned_at, $pruned_at)
WHERE run = $run AND list_contains($steps, step);

-- name: snapshots
-- A run's snapshots, oldest first.
SELECT run, step, "update", agent_id, path, parent, fingerprint, created_at, pruned_at, is_historical
FROM snapshot
WHERE run = $run
ORDER BY step;

-- name: lineages
-- The snapshots of all runs of one game with what each was trained from, each run's from its oldest on.
SELECT run, agent_id, snapshot.parent
FROM snapshot
JOIN run USING (run)
WHERE run.game_id = $game_id
ORDER BY run, step;

-- name: delete_snapshots_after
-- Deletes a run's snapshots past an update.
DELETE FROM snapshot WHERE run = $run AND "update" > $update;
