-- Inserts a gate that begins now.
INSERT INTO gate (
    gate, game_id, run, challenger, opponent, attempt, elo0, elo1, elo_model, alpha, beta, seed, sampling,
    games, llr, decision, is_promoted, begun_at, begun
)
VALUES (
    $gate, $game_id, $run, $challenger, $opponent, $attempt, $elo0, $elo1, $elo_model, $alpha, $beta, $seed, $sampling,
    0, 0, 'running', false, $begun_at, (SELECT coalesce(greatest(max(begun), max(decided)), 0) + 1 FROM gate)
);
