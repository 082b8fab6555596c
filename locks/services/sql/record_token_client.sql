-- Remembers that a token was used from an address; of the other addresses only the latest so many stay.
WITH token AS MATERIALIZED (
    SELECT id FROM octo_token WHERE digest = %(digest)s
),
removed AS (
    DELETE FROM octo_token_client
    WHERE id IN (
        SELECT client.id
        FROM octo_token_client AS client
        JOIN token ON token.id = client.token_id
        WHERE client.address <> %(address)s::inet
        ORDER BY client.last_used_at DESC
        OFFSET %(others)s
    )
)
INSERT INTO octo_token_client (token_id, address, user_agent, last_used_at)
SELECT id, %(address)s::inet, %(user_agent)s, clock_timestamp() FROM token
ON CONFLICT (token_id, address) DO UPDATE SET user_agent = excluded.user_agent, last_used_at = excluded.last_used_at
