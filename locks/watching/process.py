"""The one source of this process, and what it does for watchers."""

from locks.watching.following import Following
from locks.watching.renewals import Renewals
from locks.watching.rights import Rights
from locks.watching.source import LiveSource

source = LiveSource()
following = Following()
source.take_on(following, Renewals(following), Rights(following))
