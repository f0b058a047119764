-- name: make_objects
-- Makes `object` of the lines of `batch`: each with the keys of its JSON object, or what is wrong with it.
CREATE OR REPLACE TEMP TABLE object AS
SELECT
    line,
    text,
    TRY(json_keys(text)) AS keys,
    if(len(keys) > 0, NULL, 'no match as a JSON object of text that can be; put one on a line, with seat0, seat1 and winner') AS problem
FROM (SELECT line, text::VARCHAR AS text FROM batch);

-- name: make_given
-- The tables of an import: its games, and what its names stand for that is not plain from themselves.
CREATE OR REPLACE TEMP TABLE given (
    place BIGINT, -- among the games of the file
    game_id VARCHAR,
    seat0_agent VARCHAR,
    seat1_agent VARCHAR,
    seed UBIGINT,
    winner TINYINT,
    end_reason VARCHAR,
    steps BIGINT,
    ticks BIGINT,
    sampling VARCHAR,
    played_at TIMESTAMP -- NULL: not told
);
CREATE OR REPLACE TEMP TABLE said (
    word VARCHAR, said_in VARCHAR, line BIGINT, won VARCHAR, is_word BOOLEAN, is_name BOOLEAN
);
CREATE OR REPLACE TEMP TABLE called (word VARCHAR);
CREATE OR REPLACE TEMP TABLE spelling (spelt VARCHAR, name VARCHAR, is_bad BOOLEAN);
CREATE OR REPLACE TEMP TABLE seat (game VARCHAR, name VARCHAR, agent_id VARCHAR);
CREATE OR REPLACE TEMP MACRO plain_moment(spelt) AS TRY_CAST(
    regexp_extract(
        spelt,
        '^([1-9][0-9]{3}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?)(?:Z|\+00:00)?$',
        1
    ) AS TIMESTAMP
);

-- name: odd_moments
-- Different times of `part` that are not UTC or have none of the usual forms.
SELECT DISTINCT played_at FROM part WHERE played_at <> '' AND plain_moment(played_at) IS NULL;

-- name: new_names
-- Different names of `part`, and winners that may be names.
SELECT DISTINCT unnest([seat0, seat1, game_id, end_reason, winner, winner_name]) FROM part;

-- name: make_checked
-- Makes `checked` of `part`: what each row says, the first rule that it breaks, and why it is left out.
CREATE OR REPLACE TEMP TABLE checked AS
WITH
told AS (
    SELECT
        * REPLACE (nullif(game_id, '') AS game_id, coalesce(nullif(end_reason, ''), 'unknown') AS end_reason),
        CASE
            WHEN winner <> '' THEN 'winner'
            WHEN winner_seat <> '' THEN 'winner_seat'
            WHEN winner_name <> '' THEN 'winner_name'
            WHEN winner IS NOT NULL THEN 'winner'
            WHEN winner_seat IS NOT NULL THEN 'winner_seat'
            ELSE 'winner_name'
        END AS said_in,
        coalesce(nullif(winner, ''), nullif(winner_seat, ''), nullif(winner_name, ''), '') AS won
    FROM part
),
named AS (
    SELECT
        told.* REPLACE (
            coalesce(a.name, seat0) AS seat0,
            coalesce(b.name, seat1) AS seat1,
            coalesce(g.name, game_id) AS game_id,
            coalesce(e.name, end_reason) AS end_reason
        ),
        a.is_bad AS is_bad0, b.is_bad AS is_bad1, g.is_bad AS is_bad_game, e.is_bad AS is_bad_end,
        coalesce(w.name, won) AS winner_called,
        if(said_in = 'winner_name' AND word.result >= 0, NULL, word.result) AS by_word
    FROM told
    LEFT JOIN spelling AS a ON a.spelt = seat0
    LEFT JOIN spelling AS b ON b.spelt = seat1
    LEFT JOIN spelling AS g ON g.spelt = game_id
    LEFT JOIN spelling AS e ON e.spelt = end_reason
    LEFT JOIN spelling AS w ON w.spelt = won
    LEFT JOIN word ON word.word = lower(won)
),
counted AS (
    SELECT
        named.*,
        coalesce(moment, plain_moment(played_at)) AS moment,
        coalesce(is_zoned, right(played_at, 1) = 'Z' OR contains(played_at, '+')) AS is_zoned,
        if(said_in = 'winner_seat', NULL, CASE winner_called WHEN seat0 THEN 0 WHEN seat1 THEN 1 END) AS by_name,
        coalesce(if(said_in = 'winner_name', by_name, by_word), by_word, by_name) AS result,
        TRY_CAST(if(regexp_full_match(seed, '[0-9]{1,20}'), seed, NULL) AS UBIGINT) AS seed_count,
        TRY_CAST(if(regexp_full_match(steps, '[0-9]{1,20}'), steps, NULL) AS BIGINT) AS steps_count,
        TRY_CAST(if(regexp_full_match(ticks, '[0-9]{1,20}'), ticks, NULL) AS BIGINT) AS ticks_count
    FROM named
    LEFT JOIN moment ON moment.spelt = played_at
)
SELECT
    number, line, said_in, won, by_word, by_name, result, seat0, seat1, game_id, end_reason, sampling, moment, is_zoned,
    seed_count, steps_count, ticks_count,
    CASE
        WHEN problem IS NOT NULL THEN 'problem'
        WHEN kind NOT IN ('', 'evaluation') THEN 'kind'
        WHEN is_bad0 THEN 'seat0'
        WHEN is_bad1 THEN 'seat1'
        WHEN seat0 = seat1 AND seat0 <> '?' THEN 'itself'
        WHEN concat(winner, winner_seat, winner_name) <> won THEN 'winners'
        WHEN result IS NULL THEN said_in
        WHEN played_at <> '' AND moment IS NULL THEN 'played_at'
        WHEN is_bad_game THEN 'game_id'
        WHEN seed <> '' AND seed_count IS NULL THEN 'seed'
        WHEN is_bad_end THEN 'end_reason'
        WHEN steps <> '' AND steps_count IS NULL THEN 'steps'
        WHEN ticks <> '' AND ticks_count IS NULL THEN 'ticks'
        WHEN sampling NOT IN ('', 'sample', 'greedy') THEN 'sampling'
    END AS rule,
    CASE
        WHEN rule IS NOT NULL THEN 'cannot be read'
        WHEN result = -2 THEN 'no result'
        WHEN '?' IN (seat0, seat1) THEN 'a player `?`'
    END AS left_out,
    coalesce(game_id, $default) AS game
FROM counted;

-- name: new_agents
-- Agents of `checked` that were not looked up, in their order.
SELECT game, name
FROM (
    SELECT 2 * number AS place, game, seat0 AS name FROM checked WHERE left_out IS NULL
    UNION ALL
    SELECT 2 * number + 1, game, seat1 FROM checked WHERE left_out IS NULL
)
ANTI JOIN seat USING (game, name)
WHERE game IS NOT NULL
GROUP BY game, name
ORDER BY min(place);

-- name: make_seated
-- Makes `seated` of the rows of `checked` that are not left out: who sat where, and the first rule that one breaks.
CREATE OR REPLACE TEMP TABLE seated AS
SELECT
    checked.* EXCLUDE (line, said_in, won, by_word, by_name, seat0, seat1, game_id, is_zoned, rule, left_out),
    a.agent_id AS seat0_agent,
    b.agent_id AS seat1_agent,
    CASE
        WHEN list_contains($misnamed, game_id) THEN 'misnamed'
        WHEN game_id <> $wanted THEN 'wanted'
        WHEN checked.game IS NULL THEN 'game'
        WHEN a.agent_id IS NULL THEN 'agent0'
        WHEN b.agent_id IS NULL THEN 'agent1'
        WHEN a.agent_id = b.agent_id THEN 'itself'
    END AS rule
FROM checked
LEFT JOIN seat AS a ON a.game = checked.game AND a.name = seat0
LEFT JOIN seat AS b ON b.game = checked.game AND b.name = seat1
WHERE left_out IS NULL;

-- name: first_broken
-- The first row of the part that breaks a rule, those that are left out included or not.
SELECT number, rule
FROM (SELECT number, rule FROM checked WHERE $is_strict UNION ALL SELECT number, rule FROM seated)
WHERE rule IS NOT NULL
ORDER BY number
LIMIT 1;

-- name: keep_results
-- Adds to `said` the results of the part that stand in columns in which names may stand, each with the first line that
-- has it: whether it is a seat or a draw, and whether each row's is the name of an agent of its game, or a draw.
INSERT INTO said
SELECT
    lower(won), said_in, min(line), arg_min(won, number),
    bool_and(by_word IS NOT NULL), bool_and(by_name IS NOT NULL OR by_word < 0)
FROM checked
WHERE said_in <> 'winner_seat'
GROUP BY lower(won), said_in;

-- name: keep_called
-- Adds to `called` the agents of the part that are called as results are.
INSERT INTO called
SELECT DISTINCT word
FROM (SELECT unnest([seat0, seat1]) AS name FROM checked)
JOIN word ON word = lower(name);

-- name: two_meanings
-- The first result that is an agent's name, too: its line, column and value. In a `winner` that is always a seat or a
-- draw, and not always a name or a draw, names of agents are no matter.
SELECT line, said_in, won
FROM said
SEMI JOIN called USING (word)
WHERE
    is_word
    AND (
        said_in <> 'winner'
        OR NOT (SELECT coalesce(bool_and(is_word), true) FROM said WHERE said_in = 'winner')
        OR (SELECT coalesce(bool_and(is_name), true) FROM said WHERE said_in = 'winner')
    )
ORDER BY line
LIMIT 1;

-- name: left_out
-- Why how many rows of the part are left out, and how many of the others tell a time without a zone.
SELECT left_out, count(*), count(*) FILTER (moment IS NOT NULL AND NOT is_zoned) FROM checked GROUP BY left_out;

-- name: give_games
-- Adds the games of `seated` to `given`; one without a seed gets that of the file and its place.
INSERT INTO given
SELECT
    $count + row_number() OVER (ORDER BY number) - 1 AS place,
    game, seat0_agent, seat1_agent,
    coalesce(seed_count, ($seed + place)::UBIGINT),
    nullif(result, -1),
    end_reason,
    coalesce(steps_count, 0),
    coalesce(ticks_count, 0),
    coalesce(nullif(sampling, ''), 'sample'),
    moment
FROM seated
ORDER BY number;

-- name: delete_repeated_matches
-- Deletes the given matches that stand in the file once more, alike in all that tells them from others, their time too.
DELETE FROM given
WHERE
    played_at IS NOT NULL
    AND place NOT IN (
        SELECT min(place)
        FROM given
        GROUP BY
            hash(
                game_id, seat0_agent, seat1_agent, seed, coalesce(winner, -1), steps, ticks, sampling, played_at
            )
    );

-- name: is_listed
-- Whether one seat won every decided game of `given`, as in a list that names winners first.
SELECT count(DISTINCT winner) = 1 AND count(winner) >= $least FROM given;

-- name: delete_stored_matches
-- Deletes the given matches that are evaluation matches of the store: same game, seats, seed, course, moment. Those of the
-- imports that are replaced do not count.
DELETE FROM given
WHERE EXISTS (
    SELECT 1 FROM match AS old
    WHERE
        old.kind = 'evaluation' AND NOT list_contains($replaced::VARCHAR[], old.run)
        AND given.game_id = old.game_id
        AND given.seat0_agent = old.seat0_agent
        AND given.seat1_agent = old.seat1_agent
        AND given.seed = old.seed
        AND given.winner IS NOT DISTINCT FROM old.winner
        AND given.steps = old.steps
        AND given.ticks = old.ticks
        AND given.sampling = old.sampling
        AND coalesce(given.played_at, $imported_at) = old.finished_at
);

-- name: repeated_imports
-- The earlier imports of which the given matches have at least half of the games; the oldest first. Games are the
-- same by game, seats, winner and sampling (hashed to `key`), and by their times where both sides know these; one
-- without a time of its own has that of its import. In files without times equal games may be chance: which is why
-- the caller decides what to do.
WITH
game AS (
    SELECT
        match.run,
        hash(game_id, seat0_agent, seat1_agent, coalesce(winner, -1), sampling) AS key,
        if(finished_at >= imported_at - INTERVAL 1 MINUTE, NULL, finished_at) AS played_at,
        count(*) AS games
    FROM (
        SELECT match.run, imported_at, game_id, seat0_agent, seat1_agent, winner, sampling, finished_at
        FROM match
        JOIN import ON match.run = import.run
        WHERE kind = 'evaluation'
        UNION ALL
        SELECT $run, $imported_at, game_id, seat0_agent, seat1_agent, winner, sampling, coalesce(played_at, $imported_at)
        FROM given
    ) AS match
    GROUP BY ALL
),
given AS (SELECT key, played_at, games FROM game WHERE run = $run),
earlier AS (SELECT * FROM game SEMI JOIN given USING (key) WHERE run <> $run),
timed AS (
    SELECT earlier.run, key, sum(least(earlier.games, given.games)) AS same
    FROM earlier
    JOIN given USING (key, played_at)
    GROUP BY ALL
),
old AS (
    SELECT
        run, key,
        coalesce(sum(games) FILTER (WHERE played_at IS NULL), 0) AS untimed,
        coalesce(sum(games) FILTER (WHERE played_at IS NOT NULL), 0) AS timed
    FROM earlier
    GROUP BY ALL
),
new AS (
    SELECT
        key,
        coalesce(sum(games) FILTER (WHERE played_at IS NULL), 0) AS untimed,
        coalesce(sum(games) FILTER (WHERE played_at IS NOT NULL), 0) AS timed
    FROM given
    GROUP BY ALL
),
shared AS (
    SELECT
        old.run,
        coalesce(timed.same, 0) + least(old.untimed, new.untimed)
        + least(greatest(old.untimed - new.untimed, 0), new.timed - coalesce(timed.same, 0))
        + least(greatest(new.untimed - old.untimed, 0), old.timed - coalesce(timed.same, 0)) AS games
    FROM old
    JOIN new USING (key)
    LEFT JOIN timed ON old.run = timed.run AND old.key = timed.key
)
SELECT import.run, sha256, file, matches, imported_at
FROM import
JOIN (SELECT run, sum(games) AS games FROM shared GROUP BY run) AS found USING (run)
WHERE 2 * found.games >= matches
ORDER BY imported_at, run;

-- name: met_pairs
-- The pairs of different agents that have evaluation games in one game, the given ones included, the lesser id first.
SELECT DISTINCT least(seat0_agent, seat1_agent) AS a, greatest(seat0_agent, seat1_agent) AS b
FROM (
    SELECT game_id, seat0_agent, seat1_agent FROM match WHERE kind = 'evaluation' AND seat0_agent <> seat1_agent
    UNION ALL
    SELECT game_id, seat0_agent, seat1_agent FROM given
)
WHERE game_id = $game_id
ORDER BY a, b;

-- name: imports
-- All imports, the oldest first.
SELECT run, sha256, file, matches, imported_at FROM import ORDER BY imported_at, run;
