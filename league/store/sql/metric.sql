-- name: metrics
-- A run's metrics that are of no one agent, or one of them ($name), update by update.
SELECT "update", steps, name, value
FROM metric
WHERE run = $run AND agent_id = '' AND ($name IS NULL OR name = $name)
ORDER BY "update", name;

-- name: metric_curves
-- A run's metrics over its steps, in at most $points stretches of as many updates each: the stretch's last step, and the
-- mean, least and most of each metric in it.
WITH stretch AS (SELECT greatest(1, ceil(max("update") / $points::DOUBLE))::BIGINT AS width FROM metric WHERE run = $run)
SELECT name, max(steps) AS steps, avg(value) AS mean, min(value) AS least, max(value) AS most
FROM metric, stretch
WHERE run = $run AND agent_id = '' AND value IS NOT NULL
GROUP BY name, "update" // width
ORDER BY name, steps;
