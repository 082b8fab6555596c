-- One lock in its present state, free or not; no row if the name was never used here. Changes nothing.
SELECT * FROM octo_lock_row_v2 WHERE space_id = %(space_id)s AND name = %(name)s
