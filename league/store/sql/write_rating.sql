-- Inserts the ratings in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO rating BY NAME SELECT * FROM batch;
