-- name: events
-- Events of one run, or of all ($run NULL), oldest first, each with the steps that the run had made.
SELECT run, "update", any_value(metric.steps) AS steps, kind, message, happened_at
FROM event LEFT JOIN metric USING (run, "update")
WHERE $run IS NULL OR run = $run
GROUP BY run, "update", kind, message, happened_at
ORDER BY happened_at, run, "update", kind, message;
