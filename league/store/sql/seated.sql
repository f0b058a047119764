-- The hash of every agent that ever sat in a match.
SELECT agent_id, hash(agent_id) AS number
FROM (SELECT seat0_agent AS agent_id FROM match UNION SELECT seat1_agent FROM match)
ORDER BY agent_id;
