-- The agent of a run that was promoted last, if its snapshot is still there with its files.
SELECT challenger
FROM gate
WHERE
    run = $run AND is_promoted
    AND challenger IN (SELECT agent_id FROM snapshot WHERE run = $run AND pruned_at IS NULL)
ORDER BY decided DESC
LIMIT 1;
