from locks.models.alert import Alert, AlertNotice, AlertRule, Transport
from locks.models.browser_session import BrowserSession
from locks.models.bulk_release import BulkRelease, BulkReleaseItem, BulkReleaseState, ItemOutcome
from locks.models.event import ActorKind, Channel, Event, EventKind
from locks.models.freeze import Freeze
from locks.models.heartbeat import Heartbeat
from locks.models.hold_baseline import HoldBaseline, StuckCount
from locks.models.invite import Invite
from locks.models.lock import Lock
from locks.models.login_throttle import KnownNetwork, LoginThrottle
from locks.models.note import Note
from locks.models.release_request import ReleaseRequest
from locks.models.run import KvEncoding, KvEntry, Layer, Run, RunActor, RunActorRole, RunDump, RunState
from locks.models.saved_filter import SavedFilter
from locks.models.server import Server
from locks.models.session import Session
from locks.models.snooze import Snooze
from locks.models.space import Space, SpaceUsage
from locks.models.space_role import SpaceRole
from locks.models.stats import EventCursor, Measure, StatsContention, StatsHistogram, StatsMinute, StatsMonth
from locks.models.task_run import TaskRun
from locks.models.team import Membership, Role, Team
from locks.models.token import Scope, Token
from locks.models.token_client import TokenClient
from locks.models.user import User
from locks.models.waiter import ServerProcess, Waiter
from locks.models.webhook import Delivery, DeliveryAttempt, DeliveryStatus, Webhook

__all__ = [
    "ActorKind",
    "Alert",
    "AlertNotice",
    "AlertRule",
    "BrowserSession",
    "BulkRelease",
    "BulkReleaseItem",
    "BulkReleaseState",
    "Channel",
    "Delivery",
    "DeliveryAttempt",
    "DeliveryStatus",
    "Event",
    "EventCursor",
    "EventKind",
    "Freeze",
    "Heartbeat",
    "HoldBaseline",
    "Invite",
    "ItemOutcome",
    "KnownNetwork",
    "KvEncoding",
    "KvEntry",
    "Layer",
    "Lock",
    "LoginThrottle",
    "Measure",
    "Membership",
    "Note",
    "ReleaseRequest",
    "Role",
    "Run",
    "RunActor",
    "RunActorRole",
    "RunDump",
    "RunState",
    "SavedFilter",
    "Scope",
    "Server",
    "ServerProcess",
    "Session",
    "Snooze",
    "Space",
    "SpaceRole",
    "SpaceUsage",
    "StatsContention",
    "StatsHistogram",
    "StatsMinute",
    "StatsMonth",
    "StuckCount",
    "TaskRun",
    "Team",
    "Token",
    "TokenClient",
    "Transport",
    "User",
    "Waiter",
    "Webhook",
]
