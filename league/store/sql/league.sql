-- name: learners
-- The learners of one league or of all, each league's in its file's order.
SELECT run, league, place, role, settings
FROM learner
WHERE $league IS NULL OR league = $league
ORDER BY league, place;
