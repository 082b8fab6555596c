"""What happens to one name is read in the order in which it happened, whichever transaction had begun first."""

from django.db import migrations

ORDER = """
-- Where an event stands for those who read the history in commit order: behind the transaction that wrote it, and behind
-- every one that had ended when it was written. A transaction gets its number with the first row that it locks; another
-- with a higher one may have changed a later row and committed before that one is locked. What is written about that row
-- afterwards must come after, and by the number of its transaction alone it would not. A snapshot is at the latest that has
-- ended, so a position is never one that is still to come, nor below the writer's own: readers wait for it.
-- Not in SQL: inlined, it would be asked in the snapshot of the statement, which is from before it had waited for its rows.
CREATE FUNCTION octo_event_position() RETURNS xid8 LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN greatest(
        pg_current_xact_id(), (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8);
END
$$;

-- Null in events from before: there it is txid.
ALTER TABLE octo_event ADD COLUMN writer xid8;
ALTER TABLE octo_event ALTER COLUMN writer SET DEFAULT pg_current_xact_id();
ALTER TABLE octo_event ALTER COLUMN txid SET DEFAULT octo_event_position();
COMMENT ON COLUMN octo_event.txid IS 'where it stands in commit order, with id: see octo_event_position';
COMMENT ON COLUMN octo_event.writer IS 'the transaction that wrote it';
"""

BACK = """
ALTER TABLE octo_event ALTER COLUMN txid SET DEFAULT pg_current_xact_id();
ALTER TABLE octo_event DROP COLUMN writer;
DROP FUNCTION octo_event_position;
"""


class Migration(migrations.Migration):
    dependencies = [("locks", "0018_heirs")]
    operations = [migrations.RunSQL(ORDER, BACK)]
