-- name: begin_gate
-- Inserts a gate that begins now.
INSERT INTO gate (
    gate, game_id, run, challenger, opponent, attempt, elo0, elo1, elo_model, bound, alpha, beta, seed, sampling,
    games, llr, decision, is_promoted, begun_at, begun
)
VALUES (
    $gate, $game_id, $run, $challenger, $opponent, $attempt, $elo0, $elo1, $elo_model, $bound, $alpha, $beta, $seed, $sampling,
    $games, $llr, $decision, $is_promoted, $begun_at, (SELECT coalesce(greatest(max(begun), max(decided)), 0) + 1 FROM gate)
);

-- name: end_gate
-- Sets what a gate came to, once: a gate that has ended stays as it is.
UPDATE gate
SET
    games = $games,
    llr = $llr,
    decision = $decision,
    is_promoted = $is_promoted,
    decided_at = $decided_at,
    decided = (SELECT coalesce(greatest(max(begun), max(decided)), 0) + 1 FROM gate)
WHERE gate = $gate AND decision = 'running';

-- name: gate_attempts
-- How many gates were begun: at a run's title by any challenger since its last promotion, else of the same two agents.
SELECT count(*)
FROM gate
WHERE
    run IS NOT DISTINCT FROM $run
    AND CASE
        WHEN $run::VARCHAR IS NULL THEN game_id = $game_id AND challenger = $challenger AND opponent = $opponent
        ELSE begun > coalesce((SELECT max(decided) FROM gate WHERE run = $run AND is_promoted), 0)
    END;

-- name: gates
-- All gates at a run's title, or of all kinds where no run is given, oldest first.
SELECT
    gate, game_id, run, challenger, opponent, attempt, elo0, elo1, elo_model, bound, alpha, beta, seed, sampling, games, llr,
    decision, is_promoted, begun_at
FROM gate
WHERE $run::VARCHAR IS NULL OR run = $run
ORDER BY begun, gate;

-- name: champion
-- The agent of a run that was promoted last, if its snapshot is still there with its files.
SELECT challenger
FROM gate
WHERE
    run = $run AND is_promoted
    AND challenger IN (SELECT agent_id FROM snapshot WHERE run = $run AND pruned_at IS NULL)
ORDER BY decided DESC
LIMIT 1;
