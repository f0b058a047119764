-- Inserts a gate that begins now.
INSERT INTO gate
VALUES (
    $gate, $game_id, $run, $challenger, $opponent, $attempt, $elo0, $elo1, $elo_model, $alpha, $beta, $seed, $sampling,
    0, 0, 'running', false, $begun_at, NULL
);
