-- Deletes a run's snapshots past an update.
DELETE FROM snapshot WHERE run = $run AND "update" > $update;
