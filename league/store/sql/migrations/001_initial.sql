-- The first schema. Times are UTC. `update` and `row` are SQL words: quote them in queries.
-- No foreign keys: DuckDB rewrites a referenced row on update, and results may arrive before the run or agent they name.
CREATE TABLE league_store (
    id TINYINT PRIMARY KEY CHECK (id = 1),
    format VARCHAR NOT NULL CHECK (format = 'league store')
);
INSERT INTO league_store VALUES (1, 'league store');

CREATE TABLE migration (
    number INTEGER PRIMARY KEY,
    name VARCHAR NOT NULL UNIQUE,
    applied_at TIMESTAMP NOT NULL
);

CREATE TABLE run (
    run VARCHAR PRIMARY KEY CHECK (run <> ''),
    game VARCHAR NOT NULL,
    game_id VARCHAR NOT NULL,
    fingerprint VARCHAR NOT NULL,
    seed UBIGINT NOT NULL,
    stage VARCHAR NOT NULL,
    config JSON NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('running', 'finished', 'stopped', 'failed')),
    steps BIGINT NOT NULL CHECK (steps >= 0),
    "update" BIGINT NOT NULL CHECK ("update" >= 0),
    device VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    parent VARCHAR
);

-- An agent that does not change: a snapshot's content hash, or `bot:NAME`. One bot may play several games.
CREATE TABLE agent (
    game_id VARCHAR NOT NULL,
    agent_id VARCHAR NOT NULL CHECK (agent_id <> ''),
    kind VARCHAR NOT NULL CHECK (kind IN ('snapshot', 'bot', 'import')),
    name VARCHAR NOT NULL,
    PRIMARY KEY (game_id, agent_id)
);

-- agent_id is no key: two runs with the same seed take the same snapshot.
CREATE TABLE snapshot (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL CHECK (step >= 0),
    "update" BIGINT NOT NULL CHECK ("update" >= 0),
    agent_id VARCHAR NOT NULL CHECK (agent_id <> ''),
    path VARCHAR NOT NULL, -- relative to the store's folder
    parent VARCHAR, -- the agent it was trained from
    fingerprint VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL,
    PRIMARY KEY (run, step)
);

CREATE TABLE match (
    run VARCHAR NOT NULL,
    kind VARCHAR NOT NULL CHECK (kind IN ('training', 'evaluation')),
    "update" BIGINT NOT NULL CHECK ("update" >= 0),
    "row" BIGINT NOT NULL CHECK ("row" >= 0),
    ordinal BIGINT NOT NULL CHECK (ordinal >= 0),
    game_id VARCHAR NOT NULL,
    seat0_agent VARCHAR NOT NULL, -- in training the learner is its run's name
    seat1_agent VARCHAR NOT NULL,
    seed UBIGINT NOT NULL,
    winner TINYINT CHECK (winner IN (0, 1)), -- NULL: a draw
    end_reason VARCHAR NOT NULL,
    steps BIGINT NOT NULL CHECK (steps >= 0),
    ticks BIGINT NOT NULL CHECK (ticks >= 0),
    sampling VARCHAR NOT NULL,
    update_begin BIGINT,
    update_end BIGINT,
    finished_at TIMESTAMP NOT NULL,
    metrics MAP(VARCHAR, DOUBLE[2]) NOT NULL, -- metrics['damage_dealt'][1] is seat 0's, [2] seat 1's
    rewards MAP(VARCHAR, DOUBLE[2]) NOT NULL,
    PRIMARY KEY (run, kind, "update", "row", ordinal),
    CHECK (update_begin <= update_end)
);

CREATE TABLE rating (
    run VARCHAR NOT NULL,
    "update" BIGINT NOT NULL CHECK ("update" >= 0),
    system VARCHAR NOT NULL CHECK (system IN ('elo', 'bradley_terry')),
    agent_id VARCHAR NOT NULL,
    rating DOUBLE NOT NULL,
    lower DOUBLE,
    upper DOUBLE,
    games BIGINT NOT NULL CHECK (games >= 0),
    PRIMARY KEY (run, "update", system, agent_id)
);

CREATE TABLE metric (
    run VARCHAR NOT NULL,
    "update" BIGINT NOT NULL CHECK ("update" >= 0),
    steps BIGINT NOT NULL CHECK (steps >= 0),
    name VARCHAR NOT NULL,
    value DOUBLE, -- NULL: not a number
    PRIMARY KEY (run, "update", name)
);

CREATE TABLE event (
    run VARCHAR NOT NULL,
    "update" BIGINT NOT NULL CHECK ("update" >= 0),
    kind VARCHAR NOT NULL,
    message VARCHAR NOT NULL,
    happened_at TIMESTAMP NOT NULL
);
