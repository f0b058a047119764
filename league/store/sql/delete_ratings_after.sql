-- Deletes a run's ratings past an update.
DELETE FROM rating WHERE run = $run AND "update" > $update;
