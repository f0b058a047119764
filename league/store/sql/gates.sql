-- All gates at a run's title, or of all kinds where no run is given, oldest first.
SELECT
    gate, game_id, run, challenger, opponent, attempt, elo0, elo1, elo_model, alpha, beta, seed, sampling, games, llr,
    decision, is_promoted, begun_at
FROM gate
WHERE $run::VARCHAR IS NULL OR run = $run
ORDER BY begun, gate;
