-- name: gates
-- All gates at a run's title, or of all kinds where no run is given, oldest first.
SELECT
    gate, game_id, run, challenger, opponent, attempt, elo0, elo1, elo_model, bound, alpha, beta, seed, sampling, games, llr,
    decision, is_promoted, begun_at
FROM gate
WHERE $run::VARCHAR IS NULL OR run = $run
ORDER BY number, gate;

-- name: champions
-- The agent of each run that was promoted last of those whose snapshots are still there with their files.
SELECT run, arg_max(challenger, decided) AS champion
FROM gate
WHERE
    is_promoted
    AND EXISTS (
        SELECT 1 FROM snapshot WHERE snapshot.run = gate.run AND agent_id = challenger AND pruned_at IS NULL
    )
GROUP BY run;
