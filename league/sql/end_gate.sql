-- Sets what a gate came to.
UPDATE gate
SET
    games = $games,
    llr = $llr,
    decision = $decision,
    is_promoted = $is_promoted,
    decided_at = $decided_at,
    decided = (SELECT coalesce(greatest(max(begun), max(decided)), 0) + 1 FROM gate)
WHERE gate = $gate;
