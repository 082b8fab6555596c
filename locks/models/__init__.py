from locks.models.browser_session import BrowserSession
from locks.models.event import ActorKind, Channel, Event, EventKind
from locks.models.heartbeat import Heartbeat
from locks.models.invite import Invite
from locks.models.lock import Lock
from locks.models.release_batch import BatchState, ReleaseBatch, ReleaseRow, RowOutcome
from locks.models.session import Session
from locks.models.sign_in_brake import FamiliarAddress, SignInBrake
from locks.models.snooze import Snooze
from locks.models.space import Space, SpaceUsage
from locks.models.statistics import Measure, MinuteBucket, MinuteContention, MinuteCount, ReaderPosition
from locks.models.task_run import TaskRun
from locks.models.team import Membership, Role, Team
from locks.models.token import Scope, Token
from locks.models.user import User
from locks.models.usual_hold import StuckCount, UsualHold
from locks.models.waiter import Server, Waiter
from locks.models.webhook import Delivery, DeliveryAttempt, DeliveryStatus, Webhook

__all__ = [
    "ActorKind",
    "BatchState",
    "BrowserSession",
    "Channel",
    "Delivery",
    "DeliveryAttempt",
    "DeliveryStatus",
    "Event",
    "EventKind",
    "FamiliarAddress",
    "Heartbeat",
    "Invite",
    "Lock",
    "Measure",
    "Membership",
    "MinuteBucket",
    "MinuteContention",
    "MinuteCount",
    "ReaderPosition",
    "ReleaseBatch",
    "ReleaseRow",
    "Role",
    "RowOutcome",
    "Scope",
    "Server",
    "Session",
    "SignInBrake",
    "Snooze",
    "Space",
    "SpaceUsage",
    "StuckCount",
    "TaskRun",
    "Team",
    "Token",
    "User",
    "UsualHold",
    "Waiter",
    "Webhook",
]
