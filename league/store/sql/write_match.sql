-- Inserts the matches in `batch`, or replaces those of the same key.
INSERT OR REPLACE INTO match BY NAME
SELECT
    * REPLACE (
        nullif(winner, -1) AS winner,
        nullif(update_begin, -1) AS update_begin,
        nullif(update_end, -1) AS update_end,
        metrics::JSON::MAP(VARCHAR, DOUBLE[2]) AS metrics,
        rewards::JSON::MAP(VARCHAR, DOUBLE[2]) AS rewards
    )
FROM batch;
