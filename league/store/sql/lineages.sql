-- The snapshots of all runs of one game with what each was trained from, each run's from its oldest on.
SELECT run, agent_id, snapshot.parent
FROM snapshot
JOIN run USING (run)
WHERE run.game_id = $game_id
ORDER BY run, step;
