-- What is known of one game.
SELECT game_id, name, anchor, activity FROM game WHERE game_id = $game_id;
