-- The matches of `batch`, by `row`, that are evaluation matches here: same game, seats, seed, course and moment.
SELECT batch."row"
FROM batch
SEMI JOIN match
    ON batch.game_id = match.game_id
    AND batch.seat0_agent = match.seat0_agent
    AND batch.seat1_agent = match.seat1_agent
    AND batch.seed = match.seed
    AND batch.winner = coalesce(match.winner, -1)
    AND batch.steps = match.steps
    AND batch.ticks = match.ticks
    AND batch.sampling = match.sampling
    AND batch.finished_at = match.finished_at
    AND match.kind = 'evaluation';
