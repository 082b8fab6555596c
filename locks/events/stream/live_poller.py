"""The one poller of this process, and what it does for watchers."""

from locks.events.stream.authorization import Authorization
from locks.events.stream.event_tail import EventTail
from locks.events.stream.poller import Poller
from locks.events.stream.renewals import Renewals

poller = Poller()
event_tail = EventTail()
poller.register(event_tail, Renewals(event_tail), Authorization(event_tail))
