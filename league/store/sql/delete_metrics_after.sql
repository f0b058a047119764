-- Deletes a run's metrics past an update.
DELETE FROM metric WHERE run = $run AND "update" > $update;
