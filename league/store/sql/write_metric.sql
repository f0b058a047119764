-- Inserts the metrics in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO metric BY NAME SELECT * FROM batch;
