-- Which runs are learners of a league, and in which role; a run that is none stands by itself.
CREATE TABLE learner (
    run VARCHAR PRIMARY KEY CHECK (run <> ''),
    league VARCHAR NOT NULL CHECK (league <> ''),
    place BIGINT NOT NULL CHECK (place >= 0), -- in the order of the league's file, which decides between equals
    role VARCHAR NOT NULL CHECK (role IN ('main', 'main_exploiter', 'league_exploiter', 'exploiter')),
    settings JSON NOT NULL -- the role's figures, the steps of a turn, the league's seed
);

-- False: the other learners of the league meet it only while it is its run's newest.
ALTER TABLE snapshot ADD COLUMN is_historical BOOLEAN DEFAULT true;
