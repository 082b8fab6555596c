"""How many queries each page may ask, whatever it shows. One more fails the test; raise a number only with a reason."""

# Every page: the session, the person, the place, the spaces of the switcher.
SHELL = 4

QUERY_COUNTS = {
    "now": SHELL + 3,  # the board, the counters, the pulse
    "now, narrowed": SHELL + 3,
    "now, narrowed, many pages": SHELL + 4,  # how many there are
    "now, rows open": SHELL + 5,  # their last events, who is in line
    "now, in groups": SHELL + 3,
    "now, refreshed": SHELL + 2,  # no switcher
    "owners": SHELL + 1,
    "owners, rows open": SHELL + 2,  # their locks
    "stuck": SHELL + 1,
    "stuck, refreshed": SHELL,  # no switcher
    "snooze": SHELL + 1,
    "bulk releases": SHELL + 1,
    "bulk release, prepared": SHELL + 3,  # the batch, by owner, its first locks
    "bulk release, under way": SHELL + 4,  # the batch, how far it is, what was done, whether a worker is there
    "lock": SHELL + 3,  # the lock, the ribbon's holds, the listed holds
    "contention": SHELL + 3,  # the counts, the durations, the names
    "activity": SHELL + 1,
    "activity, narrowed to a token": SHELL + 2,  # which token it is
    "activity, news": SHELL,  # no switcher
    "event": SHELL + 2,  # its token
    "connect": SHELL + 1,
    "system": SHELL + 2,  # the counters of all spaces, the count of this one
    "force-release": SHELL + 1,
    "tokens": SHELL + 1,
    "tokens, history": SHELL + 1,
    "issue a token": SHELL + 2,  # the clock, the locks its prefixes match
    "rotate a token": SHELL + 1,
    "revoke a token": SHELL + 1,
    "team": SHELL + 5,  # members, spaces, what is held there, invitations, what people did
    "team, activity": SHELL + 1,
    "account": 3,  # the session, the person, the sessions; no place, no switcher
    "account, every way in": 6,  # second factors, connected accounts, recovery codes left
    "webhooks": SHELL + 1,
    "a webhook": SHELL + 3,  # the webhook, its deliveries, their attempts
    "limits": SHELL + 2,  # the space as it is stored, what is held
}
