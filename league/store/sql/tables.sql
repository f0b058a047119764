-- name: make_tables
-- The tables whose rows come from the folders' JSON files, and what is seen of matches.
CREATE TABLE run (
    run VARCHAR PRIMARY KEY,
    id VARCHAR NOT NULL, -- random; copies of its folder share it
    game VARCHAR NOT NULL,
    game_id VARCHAR NOT NULL,
    fingerprint VARCHAR NOT NULL,
    seed UBIGINT NOT NULL,
    stage VARCHAR NOT NULL,
    config JSON NOT NULL,
    status VARCHAR NOT NULL,
    steps BIGINT NOT NULL,
    "update" BIGINT NOT NULL,
    device VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL, -- times are UTC
    updated_at TIMESTAMP NOT NULL,
    parent VARCHAR,
    preset VARCHAR NOT NULL,
    game_address VARCHAR NOT NULL, -- what --env takes; empty where the game came with the library
    game_version VARCHAR NOT NULL,
    game_sha256 VARCHAR NOT NULL,
    number BIGINT NOT NULL -- the order in which runs began
);

CREATE TABLE league (league VARCHAR PRIMARY KEY, number BIGINT NOT NULL, begun_at TIMESTAMP NOT NULL);

-- Which runs are learners of a league, and in which role; a run that is none stands by itself.
CREATE TABLE learner (
    run VARCHAR PRIMARY KEY,
    league VARCHAR NOT NULL,
    place BIGINT NOT NULL, -- in the order of the league's file, which decides between equals
    role VARCHAR NOT NULL,
    settings JSON NOT NULL -- the role's figures, the steps of a turn, the league's seed
);

-- An agent that does not change: a snapshot's content hash, or `bot:NAME`. One bot may play several games.
CREATE TABLE agent (
    game_id VARCHAR NOT NULL,
    agent_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    address VARCHAR NOT NULL, -- of a bot in Python: what --bot takes
    version VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,
    thing VARCHAR NOT NULL,
    PRIMARY KEY (game_id, agent_id)
);

-- What a game's spec says that boards and alarms need, since they load no game's code.
CREATE TABLE game (
    game_id VARCHAR PRIMARY KEY,
    name VARCHAR NOT NULL,
    anchor VARCHAR, -- the agent held at 1000; NULL: the mean of a group is
    activity VARCHAR, -- the metric that is 0 where a seat did nothing; NULL: time-outs alone tell of passivity
    utility VARCHAR, -- the reward term by which its matches score; NULL: by win, draw, loss
    bound DOUBLE -- the most that a match can pay or cost; NULL: not known
);

-- agent_id is no key: two runs with the same seed take the same snapshot.
CREATE TABLE snapshot (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    "update" BIGINT NOT NULL,
    agent_id VARCHAR NOT NULL,
    path VARCHAR NOT NULL, -- relative to the store's folder
    parent VARCHAR, -- the agent it was trained from
    fingerprint VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL,
    pruned_at TIMESTAMP, -- when its files were deleted; NULL: they are kept
    is_historical BOOLEAN NOT NULL, -- false: other learners meet it only while it is its run's newest
    PRIMARY KEY (run, step)
);

-- Every gate that was begun, one that was broken off included. Where `run` is not NULL the title of that run's champion
-- was at stake, and a challenger that is promoted takes it.
CREATE TABLE gate (
    gate VARCHAR PRIMARY KEY, -- the `run` of its match rows
    game_id VARCHAR NOT NULL,
    run VARCHAR,
    challenger VARCHAR NOT NULL,
    opponent VARCHAR NOT NULL,
    attempt BIGINT NOT NULL, -- counted from 1 since the last promotion
    elo0 DOUBLE NOT NULL, -- where payoffs are tested, payoffs
    elo1 DOUBLE NOT NULL,
    elo_model VARCHAR NOT NULL,
    alpha DOUBLE NOT NULL, -- of this attempt
    beta DOUBLE NOT NULL,
    seed UBIGINT NOT NULL,
    sampling VARCHAR NOT NULL,
    games BIGINT NOT NULL,
    llr DOUBLE NOT NULL,
    decision VARCHAR NOT NULL,
    is_promoted BOOLEAN NOT NULL,
    begun_at TIMESTAMP NOT NULL,
    decided_at TIMESTAMP,
    number BIGINT NOT NULL, -- the order in which gates began and were decided
    decided BIGINT, -- in that order
    bound DOUBLE -- of a payoff; NULL where points are tested
);

-- Every file of matches that was imported. Its matches are evaluation rows of the same `run`.
CREATE TABLE import (
    run VARCHAR PRIMARY KEY,
    sha256 VARCHAR NOT NULL, -- of the file's bytes
    file VARCHAR NOT NULL, -- its name, without the folder
    matches BIGINT NOT NULL,
    imported_at TIMESTAMP NOT NULL
);

-- name: make_evaluation_game
-- Evaluation matches between two agents, each with seat 0's score in [0, 1]: by its payoff from the largest loss to the
-- largest gain where the game says how large these are, else 1, 0.5 or 0. A game that was played before comes once, by the
-- rule of `pair_counts`.
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
