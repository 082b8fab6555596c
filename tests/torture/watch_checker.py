"""Every watch has every transition of every name, once and in order.

After a `reset` it may have missed some: only those of around the loss of a primary, and there are not more resets than
primaries were lost. A reset that comes again before anything else is the same one: the connection broke after it.
"""

from collections import Counter, defaultdict

from tests.torture.history import Delivered, Event, History
from tests.torture.violations import ABSENT_SECONDS, Violation

LOSS = "lose the primary"

Transition = tuple[str, int]


def check_watches(history: History, judged: Counter[str]) -> list[Violation]:
    found = []
    expected: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(history.events, key=lambda event: event.id):
        expected[event.name].append(event)
    by_watch: dict[int, list[Delivered]] = {watch: [] for watch in history.watches}
    for one in history.delivered:
        by_watch.setdefault(one.watch, []).append(one)
    for watch, delivered in by_watch.items():
        judged["watch"] += len(delivered)
        resets = reset_times(delivered)
        losses = sum(fault.kind == LOSS for fault in history.faults)
        if len(resets) > losses:
            what = f"watch {watch}: {len(resets)} resets, and {losses} primaries were lost"
            found.append(Violation("watch", "", what, resets[0], resets[-1]))
        found += _check_watch(watch, delivered, expected, history)
    return found


def reset_times(delivered: list[Delivered]) -> list[float]:
    return [
        one.at
        for index, one in enumerate(delivered)
        if one.kind == "reset" and (not index or delivered[index - 1].kind != "reset")
    ]


def _check_watch(
    watch: int, delivered: list[Delivered], expected: dict[str, list[Event]], history: History
) -> list[Violation]:
    found = []
    by_name: dict[str, list[Delivered]] = defaultdict(list)
    resets: dict[str, set[int]] = defaultdict(set)
    for one in delivered:
        if one.kind == "reset":
            for name in expected:
                resets[name].add(len(by_name[name]))
        else:
            by_name[one.name].append(one)
    for name in sorted({*expected, *by_name}):
        got = [(one.kind, one.fencing_token) for one in by_name.get(name, [])]
        events = expected.get(name, [])
        wanted = [(event.kind, event.fencing_token) for event in events]
        if got == wanted:
            continue
        missing = Counter(wanted) - Counter(got)
        lost = [event for event in events if (event.kind, event.fencing_token) in missing]
        if _has_gaps_only_at(resets[name], got, wanted) and _are_near_losses(lost, history):
            continue
        times = [event.at for event in lost]
        if missing:
            what = f"missing {next(iter(missing))} and {missing.total() - 1} more"
        elif extra := Counter(got) - Counter(wanted):
            what = f"repeated or unknown {next(iter(extra))}"
            times = [one.at for one in by_name[name] if (one.kind, one.fencing_token) in extra]
        else:
            what = "in another order than the history"
            times = [
                event.at for event, one in zip(events, got, strict=True) if (event.kind, event.fencing_token) != one
            ]
        found.append(Violation("watch", name, f"watch {watch}: {what}", min(times), max(times)))
    return found


def _are_near_losses(lost: list[Event], history: History) -> bool:
    spans = [
        (fault.began - ABSENT_SECONDS, (fault.recovered or fault.ended) + ABSENT_SECONDS)
        for fault in history.faults
        if fault.kind == LOSS
    ]
    return all(any(begin < event.at < end for begin, end in spans) for event in lost)


def _has_gaps_only_at(indices: set[int], got: list[Transition], wanted: list[Transition]) -> bool:
    """Whether the transitions that are missing would have come at those indices."""
    positions = {one: position for position, one in enumerate(wanted)}
    found = [positions.get(one, -1) for one in got]
    before = -1
    for index, position in enumerate([*found, len(wanted)]):
        if position <= before or (position != before + 1 and index not in indices):
            return False
        before = position
    return True
