-- Marks snapshots of a run as pruned; one that was marked before keeps its time.
UPDATE snapshot
SET pruned_at = coalesce(pruned_at, $pruned_at)
WHERE run = $run AND list_contains($steps, step);
