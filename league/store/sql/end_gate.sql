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
