-- The newest training matches of a run: how many ended by the clock, and in how many the learner's metric of activity was 0.
-- `with_activity` counts those that tell of it at all.
WITH newest AS (
    SELECT end_reason, metrics[$activity::VARCHAR][if(seat0_agent = run, 1, 2)] AS activity
    FROM match
    WHERE run = $run AND kind = 'training'
    ORDER BY match.update DESC, match.row DESC, ordinal DESC
    LIMIT $last
),
clock AS (SELECT unnest(['time_limit', 'time', 'timeout', 'time_out']) AS end_reason)
SELECT
    count(*) AS matches,
    count(*) FILTER (end_reason IN (FROM clock)) AS time_outs,
    count(activity) AS with_activity,
    count(*) FILTER (activity = 0) AS idle,
    avg(activity) AS mean_activity
FROM newest;
