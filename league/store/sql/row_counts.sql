-- A run's rows up to an update of its training: what, how many, and the last update among them.
SELECT kind, count(*), max("update")
FROM match
WHERE run = $run AND (kind = 'evaluation' OR "update" <= $update)
GROUP BY kind;
