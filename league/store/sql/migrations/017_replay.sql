-- Matches that are kept whole: what it takes to play them once more. Their keys are those of their rows in `match`.
CREATE TABLE replay (
    run VARCHAR NOT NULL,
    kind VARCHAR NOT NULL CHECK (kind IN ('training', 'evaluation')),
    "update" BIGINT NOT NULL,
    "row" BIGINT NOT NULL,
    ordinal BIGINT NOT NULL,
    game_id VARCHAR NOT NULL,
    seat0_agent VARCHAR NOT NULL,
    seat1_agent VARCHAR NOT NULL,
    content VARCHAR NOT NULL, -- the text of a replay's file
    PRIMARY KEY (run, kind, "update", "row", ordinal)
);
