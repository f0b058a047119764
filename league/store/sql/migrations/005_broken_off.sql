-- A gate whose process ended before it was decided is `broken off`; until now it stayed `running`. A constraint cannot be
-- changed, so the table is made anew. One that an older league plays right now writes what it comes to all the same.
ALTER TABLE gate RENAME TO old_gate;
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
    decision VARCHAR NOT NULL CHECK (decision IN ('running', 'passed', 'failed', 'undecided', 'broken off')),
    is_promoted BOOLEAN NOT NULL CHECK (NOT is_promoted OR (decision = 'passed' AND run IS NOT NULL)),
    begun_at TIMESTAMP NOT NULL,
    decided_at TIMESTAMP
);
INSERT INTO gate
SELECT * REPLACE (
    if(decision = 'running', 'broken off', decision) AS decision,
    if(decision = 'running', (SELECT count(*) FROM match WHERE match.run = old_gate.gate), games) AS games
)
FROM old_gate;
DROP TABLE old_gate;
