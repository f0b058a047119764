-- Deletes the agents whose only snapshots are this run's past an update, so that no name stands for two agents.
DELETE FROM agent
WHERE
    kind = 'snapshot'
    AND agent_id IN (SELECT agent_id FROM snapshot WHERE run = $run AND "update" > $update)
    AND agent_id NOT IN (SELECT agent_id FROM snapshot WHERE run <> $run OR "update" <= $update);
