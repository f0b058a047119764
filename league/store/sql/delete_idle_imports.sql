-- Deletes the agents from outside that no match has any more.
DELETE FROM agent
WHERE
    kind = 'import'
    AND NOT EXISTS (
        SELECT 1 FROM match
        WHERE match.game_id = agent.game_id AND (seat0_agent = agent.agent_id OR seat1_agent = agent.agent_id)
    );
