-- Games with a utility: what a match paid, and what it can pay. `course` tells games apart that nothing was drawn in.
ALTER TABLE match ADD COLUMN payoff DOUBLE; -- seat 0's, in the units of the game's utility; NULL: the game has none
ALTER TABLE match ADD COLUMN course UBIGINT; -- a hash of all that was seen, where neither side sampled; else NULL
ALTER TABLE game ADD COLUMN utility VARCHAR; -- the reward term by which matches score; NULL: by win, draw, loss
ALTER TABLE game ADD COLUMN bound DOUBLE; -- the most that a match can pay or cost; NULL: not known

-- A constraint cannot be changed, so both tables are made again.
ALTER TABLE rating RENAME TO old_rating;
CREATE TABLE rating (
    run VARCHAR NOT NULL, -- whose evaluation wrote it; '': a board, as `league leaderboard` shows it
    "update" BIGINT NOT NULL CHECK ("update" >= 0), -- updates that the run had made; 0: a board
    game_id VARCHAR NOT NULL,
    sampling VARCHAR NOT NULL CHECK (sampling IN ('sample', 'greedy')), -- how the nets chose in the games rated
    prior DOUBLE NOT NULL CHECK (prior >= 0), -- imagined draws an agent; 0 for elo and payoff, which have none
    system VARCHAR NOT NULL CHECK (system IN ('elo', 'bradley_terry', 'payoff')),
    agent_id VARCHAR NOT NULL, -- for elo the run whose learner it is
    rating DOUBLE NOT NULL,
    lower DOUBLE, -- of the 95 % interval; elo has none
    upper DOUBLE,
    games BIGINT NOT NULL CHECK (games >= 0),
    group_number INTEGER, -- counted from 1: ratings of different groups cannot be compared; NULL for elo
    rated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (run, "update", game_id, sampling, prior, system, agent_id)
);
INSERT INTO rating BY NAME SELECT * FROM old_rating;
DROP TABLE old_rating;
ALTER TABLE gate RENAME TO old_gate;
CREATE TABLE gate (
    gate VARCHAR PRIMARY KEY CHECK (gate <> ''), -- the `run` of its match rows
    game_id VARCHAR NOT NULL,
    run VARCHAR,
    challenger VARCHAR NOT NULL,
    opponent VARCHAR NOT NULL,
    attempt BIGINT NOT NULL CHECK (attempt >= 1), -- counted from 1 since the last promotion
    elo0 DOUBLE NOT NULL, -- where payoffs are tested, payoffs
    elo1 DOUBLE NOT NULL CHECK (elo0 < elo1),
    elo_model VARCHAR NOT NULL CHECK (elo_model IN ('logistic', 'normalised', 'payoff')),
    alpha DOUBLE NOT NULL, -- of this attempt
    beta DOUBLE NOT NULL,
    seed UBIGINT NOT NULL,
    sampling VARCHAR NOT NULL,
    games BIGINT NOT NULL CHECK (games >= 0),
    llr DOUBLE NOT NULL,
    decision VARCHAR NOT NULL CHECK (decision IN ('running', 'passed', 'failed', 'undecided', 'broken off')),
    is_promoted BOOLEAN NOT NULL CHECK (NOT is_promoted OR (decision = 'passed' AND run IS NOT NULL)),
    begun_at TIMESTAMP NOT NULL,
    decided_at TIMESTAMP,
    begun BIGINT,
    decided BIGINT,
    bound DOUBLE -- of a payoff; NULL where points are tested
);
INSERT INTO gate BY NAME SELECT * FROM old_gate;
DROP TABLE old_gate;

-- As before, with what each scored: `score` is seat 0's in [0, 1], by its payoff from the largest loss to the largest gain
-- where the game says how large these are, else 1, 0.5 or 0.
CREATE OR REPLACE VIEW evaluation_game AS
SELECT
    run, "update", "row", ordinal, game_id, seat0_agent, seat1_agent, seed, winner, end_reason, steps, ticks, sampling,
    finished_at, metrics, payoff,
    coalesce(0.5 + payoff / (2 * bound), if(winner IS NULL, 0.5, 1.0 - winner)) AS score
FROM (
    SELECT
        match.*,
        bound,
        starts_with(seat0_agent, 'bot:') AND starts_with(seat1_agent, 'bot:') AS is_bots,
        if(is_bots, '', sampling) AS mode,
        CASE
            WHEN is_bots OR sampling = 'greedy' THEN NULL
            ELSE row("update", "row", ordinal, winner, steps, ticks)
        END AS game
    FROM match LEFT JOIN game USING (game_id)
    WHERE kind = 'evaluation' AND seat0_agent <> seat1_agent
)
QUALIFY
    row_number() OVER (
        PARTITION BY game_id, seat0_agent, seat1_agent, seed, mode, game
        ORDER BY coalesce(winner, -1), finished_at, run, "update", "row", ordinal
    ) = 1;
