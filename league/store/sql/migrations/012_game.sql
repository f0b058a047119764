-- What a game's spec says that boards and alarms need, since they load no game's code.
CREATE TABLE game (
    game_id VARCHAR PRIMARY KEY CHECK (game_id <> ''),
    name VARCHAR NOT NULL,
    anchor VARCHAR, -- the agent held at 1000; NULL: the mean of a group is
    activity VARCHAR -- the metric that is 0 where a seat did nothing; NULL: time-outs alone tell of passivity
);
-- Until now one anchor and one metric were taken for every game; they are kept where the one game that has them was played.
INSERT INTO game
SELECT game_id, coalesce(max(name), ''), 'bot:based', 'damage_dealt'
FROM (
    SELECT game_id, game AS name FROM run WHERE game = 'brawl'
    UNION ALL
    SELECT game_id, NULL FROM agent WHERE agent_id = 'bot:based'
    UNION ALL
    SELECT game_id, NULL FROM match WHERE seat0_agent = 'bot:based' OR seat1_agent = 'bot:based'
)
GROUP BY game_id;
