-- A metric of one agent, as `pool/odds`, has the agent beside its name; until now its id was the end of the name. A key
-- cannot be changed, so the table is made again.
ALTER TABLE metric RENAME TO old_metric;
CREATE TABLE metric (
    run VARCHAR NOT NULL,
    "update" BIGINT NOT NULL CHECK ("update" >= 0),
    steps BIGINT NOT NULL CHECK (steps >= 0),
    name VARCHAR NOT NULL,
    agent_id VARCHAR NOT NULL DEFAULT '', -- '': of the run, not of one agent
    value DOUBLE, -- NULL: not a number
    PRIMARY KEY (run, "update", name, agent_id)
);
INSERT INTO metric BY NAME
SELECT
    run,
    "update",
    steps,
    regexp_replace(name, '^(pool/odds|pool/win_rate)/.+$', '\1') AS name,
    regexp_extract(name, '^(?:pool/odds|pool/win_rate)/(.+)$', 1) AS agent_id,
    value
FROM old_metric;
DROP TABLE old_metric;
