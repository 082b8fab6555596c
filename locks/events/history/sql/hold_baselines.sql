-- Computes the baseline of holds that are older than a minute and have none yet. Returns how many.
--
-- $1 how many locks at most
--
-- A hold gets its baseline once, from the last thirty holds that were released before it began, so the cost follows the
-- number of long holds and not that of heartbeats. Holds that expired or were force-released say nothing about how long the
-- work takes. With fewer than five samples there is no anomaly; otherwise a hold is anomalous after twice the 90th
-- percentile, and not before five minutes.
WITH hold AS MATERIALIZED (
    SELECT lock.id, lock.space_id, lock.name, lock.fencing_token, lock.acquired_at
    FROM octo_lock AS lock
    LEFT JOIN octo_hold_baseline AS baseline
        ON baseline.lock_id = lock.id AND baseline.fencing_token = lock.fencing_token
    WHERE lock.lease_id IS NOT NULL
      -- A person decides how long a reservation takes.
      AND lock.token_id IS NOT NULL
      AND lock.acquired_at < statement_timestamp() - interval '1 minute'
      AND baseline.lock_id IS NULL
    LIMIT $1::int
),
computed AS (
    INSERT INTO octo_hold_baseline (lock_id, fencing_token, space_id, sample_size, median_ms, p90_ms, anomalous_after)
    SELECT
        hold.id, hold.fencing_token, hold.space_id, sample.sample_size, sample.median_ms, sample.p90_ms,
        CASE WHEN sample.sample_size >= 5 THEN
            hold.acquired_at + greatest(2 * sample.p90_ms * interval '1 millisecond', interval '5 minutes')
        END
    FROM hold
    CROSS JOIN LATERAL (
        SELECT
            count(*) AS sample_size,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY held_ms) AS median_ms,
            percentile_disc(0.9) WITHIN GROUP (ORDER BY held_ms) AS p90_ms
        FROM (
            SELECT held_ms FROM octo_event
            WHERE octo_event.space_id = hold.space_id AND octo_event.lock_name = hold.name
              AND octo_event.kind = 'released' AND octo_event.actor_kind <> 'user' AND octo_event.at <= hold.acquired_at
            ORDER BY octo_event.at DESC, octo_event.id DESC
            LIMIT 30
        ) AS latest
    ) AS sample
    ORDER BY hold.id
    ON CONFLICT (lock_id) DO UPDATE SET
        fencing_token = excluded.fencing_token, space_id = excluded.space_id, sample_size = excluded.sample_size,
        median_ms = excluded.median_ms, p90_ms = excluded.p90_ms, anomalous_after = excluded.anomalous_after
    RETURNING 1
)
SELECT count(*)::int FROM computed
