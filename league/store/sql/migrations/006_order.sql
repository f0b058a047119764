-- The order in which runs and gates began and gates were decided, counted: the clock of a machine may jump.
ALTER TABLE run ADD COLUMN number BIGINT;
UPDATE run
SET number = earlier.number
FROM (SELECT run, row_number() OVER (ORDER BY started_at, run) AS number FROM run) AS earlier
WHERE run.run = earlier.run;

-- `begun` and `decided` are places in one sequence: a gate that began after another was decided has the higher one.
ALTER TABLE gate ADD COLUMN begun BIGINT;
ALTER TABLE gate ADD COLUMN decided BIGINT;
CREATE TEMP TABLE moment AS
SELECT gate, is_end, row_number() OVER (ORDER BY happened_at, is_end, gate) AS number
FROM (
    SELECT gate, false AS is_end, begun_at AS happened_at FROM gate
    UNION ALL
    SELECT gate, true, decided_at FROM gate WHERE decided_at IS NOT NULL
);
UPDATE gate SET begun = moment.number FROM moment WHERE moment.gate = gate.gate AND NOT is_end;
UPDATE gate SET decided = moment.number FROM moment WHERE moment.gate = gate.gate AND is_end;
DROP TABLE moment;
