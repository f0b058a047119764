-- Every gate that was begun, one that was broken off included. Where `run` is not NULL the title of that run's champion
-- was at stake, and a challenger that is promoted takes it.
CREATE TABLE gate (
    gate VARCHAR PRIMARY KEY CHECK (gate <> ''), -- the `run` of its match rows
    game_id VARCHAR NOT NULL,
    run VARCHAR,
    challenger VARCHAR NOT NULL,
    opponent VARCHAR NOT NULL,
    attempt BIGINT NOT NULL CHECK (attempt >= 1), -- counted from 1 since the last promotion
    elo0 DOUBLE NOT NULL,
    elo1 DOUBLE NOT NULL CHECK (elo0 < elo1),
    elo_model VARCHAR NOT NULL CHECK (elo_model IN ('logistic', 'normalised')),
    alpha DOUBLE NOT NULL, -- of this attempt
    beta DOUBLE NOT NULL,
    seed UBIGINT NOT NULL,
    sampling VARCHAR NOT NULL,
    games BIGINT NOT NULL CHECK (games >= 0),
    llr DOUBLE NOT NULL,
    decision VARCHAR NOT NULL CHECK (decision IN ('running', 'passed', 'failed', 'undecided')),
    is_promoted BOOLEAN NOT NULL CHECK (NOT is_promoted OR (decision = 'passed' AND run IS NOT NULL)),
    begun_at TIMESTAMP NOT NULL,
    decided_at TIMESTAMP
);
