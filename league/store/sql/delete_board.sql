-- Deletes the ratings that a board wrote, but for the learners' Elo, which is of no board alone.
DELETE FROM rating
WHERE run = '' AND game_id = $game_id AND sampling = $sampling AND prior = $prior AND system = 'bradley_terry';
