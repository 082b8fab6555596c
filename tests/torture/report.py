"""What a run found: a summary, a JUnit file, and one page of HTML with the timeline."""

import bisect
import html
import math
import statistics
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.torture.checker import RULES
from tests.torture.clocks import DatabaseTime
from tests.torture.history import Event, Fault, History, KvOp, Op
from tests.torture.queue_checker import asked_for_one_name, overtaken
from tests.torture.violations import Judgement, Violation
from tests.torture.watch_checker import reset_times

WIDTH = 1000
# Events and faults so close to a violation are written down with it.
NEAR_SECONDS = 20.0


def _percentiles(milliseconds: list[float]) -> str:
    if not milliseconds:
        return "none"
    values = sorted(milliseconds)
    return ", ".join(f"p{share} {values[len(values) * share // 100]:.0f} ms" for share in (50, 90, 99))


def summary(history: History, judgement: Judgement) -> str:
    violations = judgement.violations
    ops = [*history.ops, *history.kv_ops]
    seconds = max((op.returned for op in ops), default=0) - min((op.invoked for op in ops), default=0) or 1
    unknown = sum(op.outcome == "unknown" for op in ops)
    passed_over, claims = free_names_passed_over(history)
    handovers = _handover_delays(history)
    resets = [len(reset_times([one for one in history.delivered if one.watch == watch])) for watch in history.watches]
    places = _place_delays(history)
    later = ", ".join(f"by {milliseconds} ms: {overtaken(history, milliseconds / 1000)}" for milliseconds in (20, 100))
    lines = [
        f"seed {history.seed}: {len(ops):,} operations in {seconds:.0f} s ({len(ops) / seconds:.0f}/s)",
        f"{len(history.kv_ops):,} of them on the store",
        f"{unknown:,} unknown outcomes, {len(history.events):,} transitions, {len(history.faults)} faults",
        f"{len(violations)} violations",
        f"handover, from the end of a lease to the answer, {len(handovers):,} times: {_percentiles(handovers)}",
        f"waits away from faults, served after a request that was sent later {later}",
        f"from request to place in the queue: {_percentiles(places)}",
        f"claim-next passed over a name that was free throughout: {passed_over} of {claims:,} times",
    ]
    lines.append(f"resets of the watches, one for each lost primary at most: {', '.join(map(str, resets)) or 'none'}")
    lengths = ", ".join(f"{spell.ended - spell.began:.2f}" for spell in history.spells[:20])
    lines.append(f"spells without a request that waits, each at one server: {len(history.spells)} ({lengths} s)")
    by_kind: dict[str, list[Fault]] = {}
    for fault in history.faults:
        by_kind.setdefault(fault.kind, []).append(fault)
    for kind, faults in sorted(by_kind.items()):
        recoveries = [recovery_seconds(fault) for fault in faults]
        lines.append(
            f"{kind}: {len(recoveries)} times, answering again {statistics.median(recoveries):.1f} s "
            f"(at most {max(recoveries):.1f} s) after {'it' if faults[0].is_kill else 'its end'}"
        )
    by_rule = Counter(violation.rule for violation in violations)
    for rule, count in judgement.judged.items():
        lines.append(f"rule {rule}: {by_rule[rule]} violations in {count:,} observations ({RULES[rule]})")
    lines += [f"NOTHING JUDGED by the rule {rule}" for rule in judgement.unjudged]
    lines += [f"NOT AVAILABLE: {kind}" for kind in history.unavailable]
    lines += [f"FAULT FAILED: {fault.kind}: {fault.error}" for fault in history.faults if fault.error]
    lines += [f"VIOLATION {violation.rule}: {violation.name}: {violation.what}" for violation in violations[:20]]
    return "\n".join(lines)


def window(history: History, violation: Violation) -> list[Op | KvOp]:
    """The operations on the name that overlap the smallest window that shows the violation."""
    return [
        op
        for op in (*history.ops, *history.kv_ops)
        if op.name == violation.name and op.returned >= violation.began and op.invoked <= violation.ended
    ]


def write(directory: Path, history: History, judgement: Judgement) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    violations, text = judgement.violations, summary(history, judgement)
    (directory / "junit.xml").write_bytes(_junit(history, judgement))
    (directory / "index.html").write_text(_page(history, violations, text))
    for old in directory.glob("violation-*.txt"):
        old.unlink()
    for number, violation in enumerate(violations[:20]):
        around = [event for event in history.events if event.name == violation.name and _is_near(violation, event.at)]
        faults = [fault for fault in history.faults if _is_near(violation, fault.ended)]
        lines = [f"seed {history.seed}", str(violation), *map(str, (*window(history, violation), *around, *faults))]
        (directory / f"violation-{number}.txt").write_text("\n".join(lines))


def free_names_passed_over(history: History) -> tuple[int, int]:
    """How many claims passed over a name that no lease had at any time of the request, and how many claims there were.
    Such a name was being changed at that moment (docs/leases.md)."""
    held: dict[str, list[tuple[float, float]]] = {}
    begins: dict[tuple[str, int], float] = {}
    for event in history.events:
        if event.kind == "acquired":
            begins[event.name, event.fencing_token] = event.at
        else:
            begin = begins.pop((event.name, event.fencing_token), event.at)
            held.setdefault(event.name, []).append((begin, event.at))
    for (name, _), begin in begins.items():
        held.setdefault(name, []).append((begin, math.inf))
    spans = {name: sorted(of_name) for name, of_name in held.items()}
    claims = [op for op in history.ops if op.passed_over is not None]
    count = sum(
        any(not _is_held(spans.get(name, []), op.invoked, op.returned) for name in op.passed_over or ())
        for op in claims
    )
    return count, len(claims)


def _is_held(spans: list[tuple[float, float]], begin: float, end: float) -> bool:
    """Leases of a name follow each other, so the last one that began before the end is the last one that ended."""
    index = bisect.bisect_right(spans, (end, math.inf))
    return index > 0 and spans[index - 1][1] >= begin


def _is_near(violation: Violation, time: float) -> bool:
    return violation.began - NEAR_SECONDS < time < violation.ended + NEAR_SECONDS


def recovery_seconds(fault: Fault) -> float:
    """From a kill, and from the end of any other fault."""
    return (fault.recovered or math.inf) - (fault.began if fault.is_kill else fault.ended)


def _handover_delays(history: History) -> list[float]:
    """From the end of a lease, or the place of the waiter if that was later, to the answer that the waiter got."""
    clock = DatabaseTime(history.clock_steps)
    answers = {
        (op.name, op.fencing_token): op for op in history.ops if op.waits and op.outcome == "acquired" and not op.all_of
    }
    delays = []
    last: dict[str, Event] = {}
    for event in history.events:
        before = last.get(event.name)
        last[event.name] = event
        op = answers.get((event.name, event.fencing_token))
        if op is not None and before is not None and event.kind == "acquired" and event.place is not None:
            freed = clock.reached(max(before.over, event.place), op.invoked)
            delays.append(1000 * max(op.returned - freed, 0))
    return delays


def _place_delays(history: History) -> list[float]:
    clock, asked = DatabaseTime(history.clock_steps), asked_for_one_name(history)
    return [
        1000 * (clock.reached(event.place, asked[event.owner]) - asked[event.owner])
        for event in history.events
        if event.place is not None and event.owner in asked
    ]


def _junit(history: History, judgement: Judgement) -> bytes:
    violations = judgement.violations
    suite = ET.Element("testsuite", name="torture", tests=str(len(RULES)), seed=str(history.seed))
    by_rule = Counter(violation.rule for violation in violations)
    for rule, promise in RULES.items():
        case = ET.SubElement(suite, "testcase", classname="torture", name=promise)
        if by_rule[rule]:
            first = next(violation for violation in violations if violation.rule == rule)
            ET.SubElement(case, "failure", message=f"{by_rule[rule]} times, seed {history.seed}").text = str(first)
        elif rule in judgement.unjudged:
            ET.SubElement(case, "failure", message="nothing was judged")
    return ET.tostring(suite, encoding="utf-8", xml_declaration=True)


def _page(history: History, violations: list[Violation], text: str) -> str:
    ops = [*history.ops, *history.kv_ops]
    begin = min((op.invoked for op in ops), default=0)
    end = max((op.returned for op in ops), default=begin + 1)
    scale = WIDTH / (end - begin)
    known = Counter(int(op.returned - begin) for op in ops if op.outcome != "unknown")
    unknown = Counter(int(op.returned - begin) for op in ops if op.outcome == "unknown")
    top = max([*known.values(), *unknown.values(), 1])
    bars = []
    for counts, colour in ((known, "#4a7"), (unknown, "#c63")):
        for second, count in counts.items():
            height = 150 * count / top
            bars.append(
                f'<rect x="{second * scale:.1f}" y="{160 - height:.1f}" width="{max(scale, 1):.1f}" '
                f'height="{height:.1f}" fill="{colour}"/>'
            )
    for number, fault in enumerate(history.faults):
        x, width = (fault.began - begin) * scale, max((fault.ended - fault.began) * scale, 2)
        label = html.escape(f"{fault.kind}, answering again after {recovery_seconds(fault):.1f} s")
        bars.append(
            f'<rect x="{x:.1f}" y="{170 + 9 * (number % 10)}" width="{width:.1f}" height="8" fill="#36c">'
            f"<title>{label}</title></rect>"
        )
    for violation in violations:
        x = (violation.began - begin) * scale
        label = html.escape(str(violation))
        bars.append(f'<rect x="{x:.1f}" y="0" width="2" height="270" fill="#d00"><title>{label}</title></rect>')
    return f"""<!doctype html>
<meta charset="utf-8">
<title>Torture, seed {history.seed}</title>
<style>body {{ font: 14px/1.5 system-ui; margin: 2rem; max-width: {WIDTH}px }} svg {{ width: 100% }}</style>
<h1>Torture, seed {history.seed}</h1>
<pre>{html.escape(text)}</pre>
<p>Answers each second (green; unknown outcomes orange), faults (blue), violations (red).</p>
<svg viewBox="0 0 {WIDTH} 270">{"".join(bars)}</svg>
"""
