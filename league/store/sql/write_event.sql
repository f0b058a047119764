-- Appends the events in `batch`.
INSERT INTO event BY NAME SELECT * FROM batch;
