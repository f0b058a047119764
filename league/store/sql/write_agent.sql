-- Inserts the agents in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO agent BY NAME SELECT * FROM batch;
