-- Works out what is usual for locks that have been held for a minute and whose hold has not been judged yet. One row:
-- how many were judged.
--
-- $1 the most locks at once
--
-- A hold is judged once, by the last thirty that were given back before it, so the cost follows the number of long
-- sample_size and not that of heartbeats. Holds that ran out or were cut short say nothing of how long the work takes. With
-- fewer than five there is no usual; with them, far longer means twice what nine in ten of them took, and five minutes.
WITH unjudged AS MATERIALIZED (
    SELECT lock.id, lock.space_id, lock.name, lock.fencing_token, lock.acquired_at
    FROM octo_lock AS lock
    LEFT JOIN octo_hold_baseline AS usual ON usual.lock_id = lock.id AND usual.fencing_token = lock.fencing_token
    WHERE lock.lease_id IS NOT NULL
      AND lock.acquired_at < statement_timestamp() - interval '1 minute'
      AND usual.lock_id IS NULL
    LIMIT $1::int
),
judged AS (
    INSERT INTO octo_hold_baseline AS usual (lock_id, fencing_token, space_id, sample_size, median_ms, p90_ms, anomalous_after)
    SELECT
        unjudged.id, unjudged.fencing_token, unjudged.space_id, past.sample_size, past.median_ms, past.p90_ms,
        CASE WHEN past.sample_size >= 5 THEN
            unjudged.acquired_at + greatest(2 * past.p90_ms * interval '1 millisecond', interval '5 minutes')
        END
    FROM unjudged
    CROSS JOIN LATERAL (
        SELECT
            count(*) AS sample_size,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY held_ms) AS median_ms,
            percentile_disc(0.9) WITHIN GROUP (ORDER BY held_ms) AS p90_ms
        FROM (
            SELECT held_ms FROM octo_event
            WHERE octo_event.space_id = unjudged.space_id AND octo_event.lock_name = unjudged.name
              AND octo_event.kind = 'released' AND octo_event.at <= unjudged.acquired_at
            ORDER BY octo_event.at DESC, octo_event.id DESC
            LIMIT 30
        ) AS latest
    ) AS past
    ORDER BY unjudged.id
    ON CONFLICT (lock_id) DO UPDATE SET
        fencing_token = excluded.fencing_token, space_id = excluded.space_id, sample_size = excluded.sample_size,
        median_ms = excluded.median_ms, p90_ms = excluded.p90_ms, anomalous_after = excluded.anomalous_after
    RETURNING 1
)
SELECT count(*)::int FROM judged
