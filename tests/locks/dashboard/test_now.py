"""Now: the active locks."""

import pytest
from django.db import connection

from locks.dashboard.metadata import chips
from locks.dashboard.now.queries import SORTS
from locks.dashboard.page_number import LAST_PAGE, page_numbers
from locks.models import Lock, Waiter
from tests.locks.dashboard.conftest import linked

pytestmark = pytest.mark.django_db


def age(name: str, *, seconds: float) -> None:
    """As if the lease had been taken that long ago."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE octo_lock SET acquired_at = acquired_at - make_interval(secs => %(s)s), "
            "renewed_at = renewed_at - make_interval(secs => %(s)s), "
            "expires_at = expires_at - make_interval(secs => %(s)s) WHERE name = %(name)s",
            {"s": seconds, "name": name},
        )


def names(reply) -> list[str]:
    return [row.lock.name for row in reply.context["lock_list"].rows]


def test_a_row_tells_all_but_the_lease_id(worker, visit, victor, now_url, space):
    held = worker.takes("deploy/api", owner="runner-7", metadata="build=1842 url=https://ci.example/1842 <b>")
    Waiter.objects.create(
        space=space,
        name="deploy/api",
        token=Lock.objects.get().token,
        owner="runner-8",
        deadline_at="2999-01-01T00:00Z",
    )
    text = visit(victor).get(now_url).content.decode()
    assert "Held" in text
    assert "runner-7" in text
    assert 'href="https://ci.example/1842"' in text
    assert "&lt;b&gt;" in text
    assert str(held.fencing_token) in text
    assert str(held.lease_id) not in text


def test_the_most_urgent_come_first(worker, visit, victor, now_url):
    for name in ("calm", "overdue", "expiring", "closed", "oldest"):
        worker.takes(name, ttl_seconds=60, lock_delay_seconds=30 if name == "closed" else 0)
    age("oldest", seconds=10)
    age("expiring", seconds=50)
    age("overdue", seconds=70)
    age("closed", seconds=61)
    reply = visit(victor).get(now_url)
    assert names(reply) == ["overdue", "expiring", "closed", "oldest", "calm"]
    assert [row.lock.state.label for row in reply.context["lock_list"].rows] == [
        "Overdue", "Expiring", "Cooling down", "Held", "Held",
    ]  # fmt: skip
    counters = reply.context["counters"]
    assert (counters.held, counters.expiring, counters.overdue, counters.cooldown) == (3, 1, 1, 1)


def test_a_free_lock_is_not_listed_unless_it_is_cooling_down(worker, visit, victor, now_url):
    worker.gives_back("gone", worker.takes("gone").lease_id)
    worker.gives_back("closed", worker.takes("closed", lock_delay_seconds=30).lease_id)
    reply = visit(victor).get(now_url)
    assert names(reply) == ["closed"]
    assert '<span class="none">—</span>' in reply.content.decode()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?q=1842", ["deploy/api"]),
        ("?q=RUNNER", ["deploy/api", "deploy/web"]),
        ("?q=web", ["deploy/web"]),
        ("?q=100%25", ["odd"]),
        ("?q=_", ["odd"]),
        ("?q=%00", ["cron", "deploy/api", "deploy/web", "odd"]),
        ("?prefix=deploy/", ["deploy/api", "deploy/web"]),
        ("?owner=runner-2", ["deploy/web"]),
        ("?prefix=deploy/&owner=cron-a", []),
        ("?state=held", ["cron", "deploy/api", "deploy/web", "odd"]),
        ("?state=overdue", []),
        ("?sort=name", ["cron", "deploy/api", "deploy/web", "odd"]),
        ("?sort=owner", ["cron", "odd", "deploy/api", "deploy/web"]),
        ("?sort=oldest", ["deploy/api", "deploy/web", "cron", "odd"]),
        ("?sort=most_left", ["odd", "cron", "deploy/web", "deploy/api"]),
        ("?sort=quiet", ["deploy/api", "deploy/web", "cron", "odd"]),
        ("?sort=newest", ["odd", "cron", "deploy/web", "deploy/api"]),
        ("?sort=nonsense&page=x&open=y", ["deploy/api", "deploy/web", "cron", "odd"]),
    ],
)
def test_filters_are_in_the_url(worker, visit, victor, now_url, query, expected):
    worker.takes("deploy/api", owner="runner-1", metadata="build=1842")
    worker.takes("deploy/web", owner="runner-2")
    worker.takes("cron", owner="cron-a")
    worker.takes("odd", owner="odd", metadata="100% a_b")
    found = names(visit(victor).get(now_url + query))
    assert (found if "sort" in query else sorted(found)) == expected


def test_each_counter_leads_to_the_locks_it_counts(worker, visit, victor, now_url, space):
    for name in ("calm", "overdue", "expiring", "closed", "busy", "busier"):
        worker.takes(name, ttl_seconds=60, lock_delay_seconds=30 if name == "closed" else 0)
    age("expiring", seconds=50)
    age("overdue", seconds=70)
    age("closed", seconds=61)
    token = Lock.objects.get(name="calm").token
    for name in ("busy", "busier", "busier"):
        Waiter.objects.create(space=space, name=name, token=token, owner="next", deadline_at="2999-01-01T00:00Z")
    browser = visit(victor)
    counters = browser.get(now_url).context["counters"]
    assert (counters.held, counters.expiring, counters.overdue, counters.cooldown) == (4, 1, 1, 1)
    for state, expected in {
        "held": ["busier", "busy", "calm", "expiring"], "expiring": ["expiring"], "overdue": ["overdue"],
        "cooldown": ["closed"], "waiting": ["busier", "busy"],
    }.items():  # fmt: skip
        reply = browser.get(f"{now_url}?state={state}")
        assert sorted(names(reply)) == expected, state
    assert 'aria-current="true">Waiting' in reply.content.decode()
    assert names(browser.get(f"{now_url}?sort=queue"))[:2] == ["busier", "busy"]


def test_headings_sort_in_turn_and_say_how(worker, visit, victor, now_url):
    worker.takes("job")

    def heading(query: str):
        (found,) = (
            one for one in visit(victor).get(now_url + query).context["headings"] if one.column.label == "Held for"
        )
        return found.direction, found.next_sort

    assert heading("") == (None, "oldest")
    assert heading("?sort=oldest") == ("descending", "newest")
    assert heading("?sort=newest") == ("ascending", None)
    assert 'aria-sort="descending"' in visit(victor).get(f"{now_url}?sort=oldest").content.decode()


def test_a_collapsed_group_counts_as_one_row(worker, visit, victor, now_url):
    for number in range(51):
        worker.takes(f"a/{number:02}")
    worker.takes("b/1")
    worker.takes("b/2")
    reply = visit(victor).get(f"{now_url}?group=prefix&sort=name&closed=a/")
    assert [(row.group.label, row.group.size) for row in reply.context["lock_list"].rows if row.group] == [
        ("a/", 51), ("b/", 2),
    ]  # fmt: skip
    assert not reply.context["lock_list"].has_next
    text = reply.content.decode()
    assert "b/2" in text
    assert "a/17" not in text
    both = visit(victor).get(f"{now_url}?group=prefix&sort=name&closed=a/&closed=b/&prefix=")
    assert len(names(both)) == 2


def test_pages_have_numbers_where_their_number_is_known(worker, visit, victor, now_url):
    for number in range(51):
        worker.takes(f"job-{number:02}")
    assert visit(victor).get(now_url).context["numbers"] == [1, 2]
    assert visit(victor).get(f"{now_url}?q=job&page=2").context["numbers"] == [1, 2]
    assert visit(victor).get(f"{now_url}?group=prefix&closed=a").context["numbers"] == []
    assert page_numbers(page=10, total=1000, rows=50) == [1, None, 8, 9, 10, 11, 12, None, 20]
    assert page_numbers(page=1, total=100_000_000, rows=50)[-1] == LAST_PAGE
    assert page_numbers(page=1, total=50, rows=50) == []


def test_pages_are_turned_and_end(worker, visit, victor, now_url):
    for number in range(51):
        worker.takes(f"job-{number:02}")
    first = visit(victor).get(now_url + "?sort=name")
    assert (len(names(first)), first.context["counters"].active) == (50, 51)
    second = visit(victor).get(now_url + linked(first, "next"))
    assert (names(second), second.context["lock_list"].has_next) == (["job-50"], False)
    assert names(visit(victor).get(now_url + linked(second, "prev"))) == names(first)
    assert visit(victor).get(now_url + "?page=99").status_code == 200
    assert "51 match" in visit(victor).get(now_url + "?prefix=job").content.decode()


@pytest.mark.parametrize("page", ["", "owners", "stuck", "tokens"])
@pytest.mark.parametrize(
    ("asked", "shown"), [("00", 1), ("007", 7), ("-1", 1), ("²", 1), ("201", 200), ("9" * 5000, 200)]
)
def test_any_page_number_is_valid(visit, victor, now_url, page, asked, shown):
    reply = visit(victor).get(now_url + page, {"page": asked})
    assert (reply.status_code, reply.context["filters"].page) == (200, shown)


def test_a_lone_surrogate_in_metadata_does_not_break_the_page(worker, visit, victor, now_url):
    worker.takes("job", metadata='{"note": "\\ud800 broken"}')
    for url in (now_url, now_url + "locks/job", now_url + "stuck"):
        assert visit(victor).get(url).status_code == 200


def test_an_open_row_shows_its_metadata_and_last_events(worker, visit, victor, now_url):
    for _ in range(4):
        worker.gives_back("job", worker.takes("job", owner="runner-1").lease_id)
    worker.takes("job", owner="runner-2", metadata="step=tests")
    reply = visit(victor).get(f"{now_url}?open={Lock.objects.get().pk}")
    (row,) = reply.context["lock_list"].rows
    assert [event.kind for event in row.recent_events] == ["acquired", "released", "acquired", "released", "acquired"]
    assert "runner-1 released it" in reply.content.decode()
    assert "No waiters" in reply.content.decode()
    assert row.toggled == ()


def test_an_open_row_shows_the_queue_and_the_raw_metadata(worker, visit, victor, now_url, space):
    sent = '{"step": "tests", "more": [1, 2]}'
    worker.takes("job", metadata=sent)
    token = Lock.objects.get().token
    for queue_seq, owner in enumerate(("second", "first")):
        Waiter.objects.create(
            space=space, name="job", token=token, owner=owner, queue_seq=5 - queue_seq, deadline_at="2999-01-01T00:00Z"
        )
    reply = visit(victor).get(f"{now_url}?open={Lock.objects.get().pk}")
    (row,) = reply.context["lock_list"].rows
    assert [waiter.owner for waiter in row.waiters] == ["first", "second"]
    assert [(chip.key, chip.value) for chip in chips(row.lock.metadata)] == [("step", "tests"), ("more", "[1, 2]")]
    assert sent.replace('"', "&quot;") in reply.content.decode()


def test_long_metadata_is_cut_and_the_rest_is_counted(worker, visit, victor, now_url):
    worker.takes("job", metadata=" ".join(f"key{number}={number}" for number in range(40)))
    row = visit(victor).get(f"{now_url}?open={Lock.objects.get().pk}").content.decode()
    assert ">+36<" in row
    assert "and 16 more, below" in row
    page = visit(victor).get(f"{now_url}locks/job").content.decode()
    assert ">+16<" in page
    assert "Raw metadata" in page


def test_a_refresh_gets_the_live_content_only(worker, visit, victor, now_url):
    worker.takes("job")
    text = visit(victor).get(now_url, headers={"HX-Request": "true", "HX-Target": "live-content"}).content.decode()
    assert "job" in text
    assert "<html" not in text


def test_an_empty_space_says_what_to_do(visit, victor, now_url):
    assert f'href="{now_url}connect"' in visit(victor).get(now_url).content.decode()


def test_only_operators_see_the_button(worker, visit, victor, olga, now_url):
    worker.takes("job")
    assert "/locks/job/force-release" not in visit(victor).get(now_url).content.decode()
    assert "/locks/job/force-release" in visit(olga).get(now_url).content.decode()


@pytest.mark.parametrize("path", ["", "locks/job", "locks/job/force-release", "activity", "activity/1"])
def test_what_is_not_yours_does_not_exist(worker, visit, bob, now_url, path):
    worker.takes("job")
    reply = visit(bob).get(now_url + path)
    assert reply.status_code == 404
    assert "Page not found" in reply.content.decode()
    assert visit(bob).get("/ui/blue/").status_code == 404


def test_a_superuser_sees_every_team(worker, visit, root, now_url, red_space):
    worker.takes("job")
    assert names(visit(root).get(now_url)) == ["job"]
    assert visit(root).get("/ui/red/main/").status_code == 200


def test_an_archived_space_is_gone(space, visit, alice, now_url):
    space.archived_at = space.created_at
    space.save()
    assert visit(alice).get(now_url).status_code == 404


def test_the_tabs_and_the_help_come_from_one_list(visit, victor, now_url):
    reply = visit(victor).get(now_url)
    content = reply.content.decode()
    assert [tab.page.key for tab in reply.context["tabs"] if tab.is_active] == ["now"]
    for tab in reply.context["tabs"]:
        assert f'href="{tab.url}"' in content
        assert f"<kbd>{tab.page.shortcut}</kbd></dt><dd>go to {tab.page.label}" in content


def groups(reply) -> list[tuple[str, int, int]]:
    found = [row.group for row in reply.context["lock_list"].rows]
    return [(group.label, group.size, group.alerts) for group in found if group]


def test_rows_are_grouped_by_owner_or_prefix_the_most_urgent_first(worker, visit, victor, now_url):
    for name, owner in (("deploy/api", "a"), ("deploy/web", "b"), ("cron/x", "b"), ("alone", "c"), ("deploy/db", "b")):
        worker.takes(name, owner=owner, ttl_seconds=60)
    age("cron/x", seconds=50)
    browser = visit(victor)
    by_owner = browser.get(now_url + "?group=owner")
    assert groups(by_owner) == [("b", 3, 1), ("a", 1, 0), ("c", 1, 0)]
    assert names(by_owner) == ["cron/x", "deploy/web", "deploy/db", "deploy/api", "alone"]
    by_prefix = browser.get(now_url + "?group=prefix")
    assert groups(by_prefix) == [("cron/", 1, 1), ("deploy/", 3, 0), ("", 1, 0)]
    assert "No prefix" in by_prefix.content.decode()
    assert groups(browser.get(now_url + "?group=prefix&q=web")) == [("deploy/", 1, 0)]
    assert groups(browser.get(now_url + "?group=nonsense")) == []
    assert 'href="?prefix=deploy%2F"' in by_prefix.content.decode()
    assert names(browser.get(now_url + "?prefix=deploy%2F")) == ["deploy/api", "deploy/web", "deploy/db"]


@pytest.mark.parametrize("sort", SORTS)
def test_in_a_group_the_order_is_that_of_the_page_without_groups(worker, visit, victor, now_url, sort):
    for number in range(12):
        name = f"{'abc'[number % 3]}/{number * 5 % 12:02}"
        lease = worker.takes(name, ttl_seconds=600 - 7 * number % 50, lock_delay_seconds=60)
        if number % 5 == 0:
            worker.gives_back(name, lease.lease_id)
    for name, seconds in (("a/03", 590), ("b/05", 700)):
        age(name, seconds=seconds)
    browser = visit(victor)
    plain = names(browser.get(f"{now_url}?sort={sort}"))
    grouped = names(browser.get(f"{now_url}?sort={sort}&group=prefix"))
    assert sorted(plain) == sorted(grouped)
    for label in "abc":
        of_group = [name for name in plain if name.startswith(label)]
        assert [name for name in grouped if name.startswith(label)] == of_group
        assert names(browser.get(f"{now_url}?sort={sort}&group=prefix&prefix={label}/")) == of_group


def test_groups_go_on_from_page_to_page(worker, visit, victor, now_url):
    for number in range(60):
        worker.takes(f"deploy/{number:02}", owner="big" if number < 55 else f"small-{number}")
    first = visit(victor).get(now_url + "?group=owner&sort=name")
    second = visit(victor).get(now_url + linked(first, "next"))
    assert groups(first) == [("big", 55, 0)]
    assert names(first) + names(second) == [f"deploy/{number:02}" for number in range(60)]
    assert groups(second)[0] == ("big", 55, 0)


def test_the_peak_of_grants_does_not_depend_on_the_second_at_which_it_is_read(space, visit, victor, now_url):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO octo_event (at, kind, space_id, actor_kind, actor_name, channel) "
            "SELECT date_trunc('minute', now()) - interval '10 minutes' + second * interval '1 second', 'acquired', "
            "%s, 'token', 'w', 'api' FROM unnest(ARRAY[0, 1, 30, 58, 59]) AS second",
            [space.pk],
        )
    rate = visit(victor).get(now_url).context["grant_rate"]
    assert (rate.peak, rate.granted[49]) == (5, 5)
