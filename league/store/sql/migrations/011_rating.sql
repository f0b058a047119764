-- Ratings as they were last worked out, for queries: whatever needs a rating works it out from the matches. Until now
-- nothing of `league` filled this table, and a row did not say of which game and games it was.
ALTER TABLE rating RENAME TO old_rating;
CREATE TABLE rating (
    run VARCHAR NOT NULL, -- whose evaluation wrote it; '': a board, as `league leaderboard` shows it
    "update" BIGINT NOT NULL CHECK ("update" >= 0), -- updates that the run had made; 0: a board
    game_id VARCHAR NOT NULL,
    sampling VARCHAR NOT NULL CHECK (sampling IN ('sample', 'greedy')), -- how the nets chose in the games rated
    prior DOUBLE NOT NULL CHECK (prior >= 0), -- imagined draws an agent; 0 for elo, which has none
    system VARCHAR NOT NULL CHECK (system IN ('elo', 'bradley_terry')),
    agent_id VARCHAR NOT NULL, -- for elo the run whose learner it is
    rating DOUBLE NOT NULL,
    lower DOUBLE, -- of the 95 % interval; elo has none
    upper DOUBLE,
    games BIGINT NOT NULL CHECK (games >= 0),
    group_number INTEGER, -- counted from 1: ratings of different groups cannot be compared; NULL for elo
    rated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (run, "update", game_id, sampling, prior, system, agent_id)
);
INSERT INTO rating BY NAME
SELECT
    old_rating.run,
    old_rating."update",
    coalesce(run.game_id, '') AS game_id,
    'sample' AS sampling,
    CASE old_rating.system WHEN 'elo' THEN 0 ELSE 1.25 END AS prior,
    old_rating.system,
    old_rating.agent_id,
    old_rating.rating,
    old_rating.lower,
    old_rating.upper,
    old_rating.games,
    NULL AS group_number,
    coalesce(run.updated_at, TIMESTAMP 'epoch') AS rated_at
FROM old_rating LEFT JOIN run USING (run);
DROP TABLE old_rating;
