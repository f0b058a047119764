-- Makes an agent, named RUN@STEP, of every snapshot that is none yet.
INSERT OR IGNORE INTO agent (game_id, agent_id, kind, name)
SELECT run.game_id, snapshot.agent_id, 'snapshot', snapshot.run || '@' || snapshot.step
FROM snapshot
JOIN run USING (run)
ORDER BY run.number, snapshot.run, snapshot.step;
