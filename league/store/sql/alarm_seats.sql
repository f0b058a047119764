-- Pairs of evaluation games of one seed with the seats exchanged, of one game: how many there are, how many went to the
-- first and to the second seat (better than even in both games together), and the first seat's mean score.
WITH pair AS (
    SELECT
        if(a.winner IS NULL, 0.5, 1.0 - a.winner) + if(b.winner IS NULL, 0.5, 1.0 - b.winner) AS first_seat
    FROM evaluation_game AS a
    JOIN evaluation_game AS b
        ON a.run = b.run AND a.game_id = b.game_id AND a.seed = b.seed AND a.sampling = b.sampling
        AND a.seat0_agent = b.seat1_agent AND a.seat1_agent = b.seat0_agent
    WHERE a.game_id = $game_id AND a.seat0_agent < a.seat1_agent
)
SELECT
    count(*) AS pairs,
    count(*) FILTER (first_seat > 1) AS to_first,
    count(*) FILTER (first_seat < 1) AS to_second,
    avg(first_seat) / 2 AS first_seat_score
FROM pair;
