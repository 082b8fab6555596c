-- Some locks in their present state, by name. Changes nothing.
SELECT lock.* FROM octo_lock_row_v2 AS lock WHERE lock.id = ANY (%(ids)s::bigint[]) ORDER BY lock.name
