-- Waits until no request with this idempotency key is in progress. $1 the token's digest and the key's, as hex
SELECT pg_advisory_xact_lock(hashtextextended($1, 0))
