-- Sets what a gate came to.
UPDATE gate
SET games = $games, llr = $llr, decision = $decision, is_promoted = $is_promoted, decided_at = $decided_at
WHERE gate = $gate;
