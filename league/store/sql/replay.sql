-- name: replays
-- Matches that are kept whole, the newest first: of one run, of one game, between two agents whoever sat where, or
-- (NULL) of all.
SELECT replay.*
FROM replay
LEFT JOIN match USING (run, kind, "update", "row", ordinal)
WHERE
    ($run::VARCHAR IS NULL OR replay.run = $run)
    AND ($game_id::VARCHAR IS NULL OR replay.game_id = $game_id)
    AND (
        $first::VARCHAR IS NULL
        OR (replay.seat0_agent = $first AND replay.seat1_agent = $second)
        OR (replay.seat0_agent = $second AND replay.seat1_agent = $first)
    )
ORDER BY match.finished_at DESC NULLS LAST, run, "update" DESC, "row", ordinal
LIMIT $last;

-- name: kept_matches
-- Of one game the newest match of each two agents that is kept whole, whoever sat where, without its content.
SELECT
    replay.run, replay.kind, replay."update", replay."row", replay.ordinal, replay.seat0_agent, replay.seat1_agent,
    coalesce(match.winner, -1) AS winner, coalesce(match.end_reason, '') AS end_reason,
    coalesce(match.steps, 0) AS steps
FROM replay
LEFT JOIN match USING (run, kind, "update", "row", ordinal)
WHERE replay.game_id = $game_id
QUALIFY
    row_number() OVER (
        PARTITION BY least(replay.seat0_agent, replay.seat1_agent), greatest(replay.seat0_agent, replay.seat1_agent)
        ORDER BY match.finished_at DESC NULLS LAST, replay.run, replay."update" DESC, replay."row", replay.ordinal
    ) = 1
ORDER BY match.finished_at DESC NULLS LAST, replay.run, replay."update" DESC, replay."row", replay.ordinal;

-- name: replay_content
-- The text of one match that is kept whole.
SELECT content
FROM replay
WHERE run = $run AND kind = $kind AND "update" = $update AND "row" = $row AND ordinal = $ordinal;
