"""The SQL functions and views that the engine's statements and the pages share, one file each."""

from pathlib import Path

from django.db import migrations

DIRECTORY = Path(__file__).parent.parent / "engine" / "sql" / "functions"

# In the order in which they build on each other.
FILES = (
    "interval_ms",
    "next_fencing_token",
    "holder_id",
    "name_matches_prefixes",
    "token_is_valid",
    "live_token",
    "auth",
    "idempotency_key_in_use",
    "effective_expiry",
    "lease_times",
    "same_holder",
    "lock_snapshot",
    "event_entry",
    "expired_session",
    "space_lacks_room",
    "lock_state",
    "queued_waiter",
    "lock_row",
    "contains_pattern",
    "glob_pattern",
    "find_locks",
    "current_token",
    "invalid_token",
    "known_stuck_lock",
)


class Migration(migrations.Migration):
    dependencies = [("locks", "0002_event_history")]
    operations = [migrations.RunSQL((DIRECTORY / f"{name}.sql").read_text(), migrations.RunSQL.noop) for name in FILES]
