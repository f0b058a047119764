-- What each reward term brought in a run's training matches, in the newest $last of them or (NULL) in all: its weight,
-- the matches, those in which it was not 0 for both seats, and the mean a match of the learner and of its opponents.
WITH finished AS (
    SELECT run, if(seat0_agent = run, 1, 2) AS seat, rewards
    FROM match
    WHERE run = $run AND kind = 'training'
    ORDER BY "update" DESC, "row" DESC, ordinal DESC
    LIMIT $last
),
brought AS (
    SELECT run, entry.key AS term, entry.value[seat] AS own, entry.value[3 - seat] AS other
    FROM (SELECT run, seat, unnest(map_entries(rewards)) AS entry FROM finished)
),
weights AS (
    SELECT run, (config -> 'rewards')::MAP(VARCHAR, DOUBLE) AS rewards FROM run
)
SELECT
    term,
    coalesce(any_value(weights.rewards[term]), 0) AS weight,
    count(*) AS matches,
    count(*) FILTER (own <> 0 OR other <> 0) AS fired,
    avg(own) AS own,
    avg(other) AS other
FROM brought
LEFT JOIN weights USING (run)
GROUP BY term
ORDER BY abs(weight * avg(own)) DESC, term;
