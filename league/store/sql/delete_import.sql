-- Deletes an import.
DELETE FROM import WHERE run = $run;
