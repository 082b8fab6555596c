"""How many queries each page may run, whatever it shows. One more fails the test; raise a number only with a reason."""

# Every page: the session, the user, the space, the spaces of the switcher, the system's state (once a second).
SHELL = 5
# Pages with saved filters.
SAVED = SHELL + 1

QUERY_COUNTS = {
    # Its tokens and sessions, locks, waits, ended holds, its last acquire, the client and the token of that.
    "owner": SHELL + 7,
    "timeline": SHELL + 3,  # the clock, the ended holds, those that go on
    "wait graph": SHELL + 1,
    "now": SAVED + 4,  # the list, why some are stuck, the counters, the grant rate
    "now, filtered": SAVED + 4,
    "now, filtered, many pages": SAVED + 5,  # the total
    "now, rows open": SAVED + 8,  # their last events, their queues, their holders, their notes
    "now, in groups": SAVED + 4,
    "now, refreshed": SHELL + 3,  # no switcher
    "owners": SAVED + 1,
    "owners, rows open": SAVED + 2,  # their locks
    "runs": SHELL + 2,  # the list, the clock
    "a run": SHELL + 8,  # the run, layers, actors, leases, waiters, entries, the opened entry, the clock
    "stuck": SHELL + 1,
    "stuck, refreshed": SHELL,  # no switcher
    "snooze": SHELL + 1,
    "bulk releases": SHELL + 1,
    "bulk release, prepared": SHELL + 3,  # the batch, by owner, its first locks
    "bulk release, running": SHELL + 4,  # the batch, the progress, the results, whether a worker is alive
    "lock": SHELL + 6,  # the lock, its holder, why it is stuck, its note, the timeline's holds, the listed holds
    "contention": SHELL + 3,  # the counts, the durations, the names
    "activity": SAVED + 1,
    "activity, filtered by token": SAVED + 2,  # the token
    "activity, new events": SHELL - 1,  # no navigation
    "event": SHELL + 2,  # its token
    "connect": SHELL + 1,
    "system": SHELL + 1,  # the count of this space
    "freeze": SHELL + 2,  # held and free names that it would touch
    "reserve": SHELL + 1,
    "reserve a name": SHELL,
    "force-release": SHELL + 2,  # the lock, its note
    "ask for release": SHELL + 1,
    "note": SHELL + 2,  # the lock, its note
    "tokens": SHELL + 1,
    "tokens, history": SHELL + 1,
    "issue a token": SHELL + 2,  # the clock, the locks its prefixes match
    "rotate a token": SHELL + 1,
    "revoke a token": SHELL + 3,  # the token as it is stored, the secrets before it
    "team": SHELL + 6,  # members, their roles by space, spaces, held locks, invitations, audit log
    "team, activity": SHELL + 1,
    "overview": 5,  # the session, the user, the spaces, their counters, the system's state; no switcher
    "overview, refreshed": 5,
    "search": 4,  # the session, the user, the spaces, everything else
    "elections": 4,  # the session, the user, the space of the rooms, the rooms; no switcher
    "account": 4,  # the session, the user, the sessions, its events; no space, no switcher
    "account, every way in": 7,  # second factors, connected accounts, recovery codes left
    "webhooks": SHELL + 1,
    "a webhook": SHELL + 3,  # the webhook, its deliveries, their attempts
    "alerts": SHELL + 2,  # the webhooks of the rules, the rules
    "an alert rule": SHELL + 4,  # its webhook, the rule, its messages, their attempts
    "namespaces": SHELL + 1,  # held leases that overlap
    "names": SHELL + 1,
    "names, folders open": SHELL + 1,
    "limits": SHELL + 3,  # the space as it is stored, what is held, what is used
}
