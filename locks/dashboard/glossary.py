"""The terms of the pages, each with its definition. docs/glossary.md has the same texts; a test compares."""

GLOSSARY: dict[str, str] = {
    "lease": "The right of one owner to a lock until a time. The owner renews it while it works and releases "
    "it when it is done; otherwise it expires.",
    "owner": "The worker that holds a lock or waits for it, by the name that it gave.",
    "TTL": "How long a lease lasts without a renewal.",
    "heartbeat": "A renewal of the lease, or a keepalive of the session that it belongs to. It is late when it did"
    " not come in the time that the server advised.",
    "fencing token": "A number that rises with every new holder of a lock. Storage that refuses lower numbers is safe "
    "from a former holder that still runs.",
    "expiring": "Less than 30 seconds and less than a third of its time are left: a renewal was missed.",
    "overdue": "The lease has expired, and was neither reclaimed nor acquired since. The next claim acquires the lock.",
    "cooldown": "The time after a lease in which the lock cannot be acquired, so that its last holder has time to"
    " stop.",
    "waiting": "Requests in the queue of a held lock. They are served in the order in which they came.",
    "session": "A process that holds many leases with one keepalive. They all end with it.",
    "stuck": "A held lock that needs a person: overdue, held far longer than usual or allowed, not renewed, "
    "with a long queue, requested by a person, or of a token that is no longer valid.",
    "force-release": "Ends the lease of a holder that may still run. Its next renewal is rejected.",
    "refused": "A claim for a lock that another owner held.",
}


def term_id(term: str) -> str:
    return f"term-{term.lower().replace(' ', '-')}"
