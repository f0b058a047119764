-- Deletes a run's events past an update.
DELETE FROM event WHERE run = $run AND "update" > $update;
