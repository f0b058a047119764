-- Inserts the snapshots in `batch`, or replaces those of the same run and step.
INSERT OR REPLACE INTO snapshot BY NAME SELECT * FROM batch;
