-- Deletes the matches of an import.
DELETE FROM match WHERE run = $run AND kind = 'evaluation';
