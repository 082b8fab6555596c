-- When a lease that is granted, renewed or recognised at `at` expires: after its TTL, but not beyond the space's limit on
-- how long a lock may be held.
CREATE FUNCTION octo_lease_expiry(
    at timestamptz, ttl_seconds int, acquired_at timestamptz, max_hold_seconds int
) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT least(at + ttl_seconds * interval '1 second', acquired_at + max_hold_seconds * interval '1 second')
$$;

-- When a lock can be acquired again. A free lock knows; a held one is available after its lease and the lock delay.
CREATE FUNCTION octo_available_at(
    available_at timestamptz, lease_expires_at timestamptz, lock_delay_seconds int
) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(available_at, lease_expires_at + lock_delay_seconds * interval '1 second')
$$;

-- The end of the lock delay that follows a lease, or null if there is none.
CREATE FUNCTION octo_delay_end(lease_ended_at timestamptz, lock_delay_seconds int) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT lease_ended_at + nullif(lock_delay_seconds, 0) * interval '1 second'
$$;
