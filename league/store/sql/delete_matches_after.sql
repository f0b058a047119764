-- Deletes a run's training matches past an update; evaluation is replaced by its key when it is played again.
DELETE FROM match WHERE run = $run AND kind = 'training' AND "update" > $update;
