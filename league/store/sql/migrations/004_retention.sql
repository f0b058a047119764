-- When a snapshot's files were pruned; NULL: they are kept. The row stays, so that ratings and lineage do.
ALTER TABLE snapshot ADD COLUMN pruned_at TIMESTAMP;
