-- Which history of which database cluster this server writes: the cluster's identifier and the timeline, which promotion and
-- point-in-time recovery raise. After either, transaction ids that readers have seen may be used again for other events.
-- Fails on a standby.
CREATE FUNCTION octo_timeline() RETURNS bigint LANGUAGE sql VOLATILE
RETURN ((SELECT system_identifier FROM pg_control_system()) & x'7fffffff'::bigint) << 32
    | ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
