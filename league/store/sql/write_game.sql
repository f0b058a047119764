-- Inserts the games in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO game BY NAME SELECT * FROM batch;
