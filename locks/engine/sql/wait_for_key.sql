-- Await-key: waits until no request with this key is under way any more. $1 the caller's digest and the key's, as hex
SELECT pg_advisory_xact_lock(hashtextextended($1, 0))
