-- How many gates were begun: at a run's title by any challenger since its last promotion, else of the same two agents.
SELECT count(*)
FROM gate
WHERE
    run IS NOT DISTINCT FROM $run
    AND CASE
        WHEN $run::VARCHAR IS NULL THEN game_id = $game_id AND challenger = $challenger AND opponent = $opponent
        ELSE begun > coalesce((SELECT max(decided) FROM gate WHERE run = $run AND is_promoted), 0)
    END;
