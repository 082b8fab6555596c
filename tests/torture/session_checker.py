"""A session lasts until it expires or is ended, and is over from then on."""

from collections import Counter

from tests.torture.clocks import DatabaseTime
from tests.torture.history import Op
from tests.torture.leases import Session
from tests.torture.violations import ROUNDING, Violation, violation


def check_sessions(
    ops: list[Op], sessions: dict[str, Session], clock: DatabaseTime, judged: Counter[str]
) -> list[Violation]:
    found: list[Violation] = []
    for op in ops:
        if op.session is None or op.session not in sessions or op.verb in ("open_session", "renew", "release"):
            continue
        session = sessions[op.session]
        if op.outcome == "refused":
            judged["lost"] += 1
            if _is_live(session, op, clock):
                what = f"{op.verb} was refused, though the session {op.session} was live"
                found.append(violation("lost", op.name, what, (op.invoked, op.returned)))
        elif op.outcome in ("kept_alive", "acquired", "ended"):
            judged["revived"] += 1
            over = session.has_ended if op.outcome != "ended" else _other_end(session, op)
            if over < op.invoked:
                what = f"{op.outcome} after the end of the session {op.session}"
                found.append(violation("revived", op.name, what, (over, op.returned)))
            elif clock.lowest(op.invoked, op.returned) > session.latest_expiry(op.returned, without=op) + ROUNDING:
                what = f"{op.outcome} after the expiry of the session {op.session}"
                found.append(violation("revived", op.name, what, (op.invoked, op.returned)))
    return found


def _is_live(session: Session, op: Op, clock: DatabaseTime) -> bool:
    """Throughout the operation, whatever the unknown outcomes did."""
    has_expired = session.expires_at <= clock.highest(session.asked, op.returned) + ROUNDING
    ended = any(other is not op and other.invoked <= op.returned for other in session.ends)
    return session.opened <= op.invoked and not has_expired and not ended


def _other_end(session: Session, op: Op) -> float:
    return min(
        (other.returned for other in session.ends if other is not op and other.outcome == "ended"), default=op.returned
    )
