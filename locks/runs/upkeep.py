"""What the background tasks do for runs: end actors that are gone, finish runs that are idle, purge old ones."""

from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now

from locks.models import ActorKind, Channel, KvEntry, Layer, Run, RunActor, RunDump
from locks.runs import lifecycle
from locks.services.audit import Actor

BATCH_SIZE = 500
# A run whose lead gave no sign of life (a keepalive, or any request) for the idle limit of the run.
_IDLE = """
SELECT run.*
FROM octo_run AS run
WHERE run.finished_at IS NULL
  AND run.ttl_seconds * interval '1 second' < clock_timestamp() - greatest(run.created_at, (
      SELECT max(greatest(session.last_keepalive_at, token.last_used_at))
      FROM octo_run_actor AS lead
      JOIN octo_layer AS layer ON layer.id = lead.layer_id AND layer.parent_id IS NULL
      JOIN octo_token AS token ON token.id = lead.token_id
      LEFT JOIN octo_session AS session ON session.id = lead.session_id
      WHERE lead.run_id = run.id AND lead.role = 'lead'))
ORDER BY run.created_at
LIMIT %s
"""


def sweep() -> int:
    """Returns how many actors were ended and runs finished. Safe to run twice at once: each change locks its run."""
    system = Actor(kind=ActorKind.SYSTEM, name="expiry", channel=Channel.TASK)
    changed = 0
    for run_actor in lifecycle.ended_actors(BATCH_SIZE):
        try:
            lifecycle.end_actor(actor=system, run_actor=run_actor, reason="its session or its token has ended")
            changed += 1
        except lifecycle.ActorNotFound:
            pass
    for run in Run.objects.raw(_IDLE, [BATCH_SIZE]):
        reason = f"the lead was silent for {run.ttl_seconds} s"
        lifecycle.finish(actor=system, run_id=run.pk, space=run.space, reason=reason)
        changed += 1
    return changed


def purge(*, days: int) -> int:
    """Deletes runs that finished so many days ago, with all that belongs to them. Their tokens stay, revoked, because
    the history refers to them."""
    old = Run.objects.filter(finished_at__lt=Now() - timedelta(days=days)).values_list("pk", flat=True)
    deleted = 0
    for run_id in list(old[:BATCH_SIZE]):
        with transaction.atomic():
            layers = list(Layer.objects.filter(run=run_id).values_list("pk", flat=True))
            KvEntry.objects.filter(layer_id__in=layers).delete()
            RunActor.objects.filter(run=run_id).delete()
            RunDump.objects.filter(run=run_id).delete()
            Layer.objects.filter(run=run_id).delete()
            deleted += Run.objects.filter(pk=run_id).delete()[1].get("locks.Run", 0)
    return deleted
