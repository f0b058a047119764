-- The newest training matches of a run: how many ended by the clock, and in how many the learner dealt no damage.
-- `with_damage` counts those whose game tells of damage at all.
WITH newest AS (
    SELECT end_reason, metrics['damage_dealt'][if(seat0_agent = run, 1, 2)] AS damage
    FROM match
    WHERE run = $run AND kind = 'training'
    ORDER BY match.update DESC, match.row DESC, ordinal DESC
    LIMIT $last
),
clock AS (SELECT unnest(['time_limit', 'time', 'timeout', 'time_out']) AS end_reason)
SELECT
    count(*) AS matches,
    count(*) FILTER (end_reason IN (FROM clock)) AS time_outs,
    count(damage) AS with_damage,
    count(*) FILTER (damage = 0) AS idle,
    avg(damage) AS mean_damage
FROM newest;
