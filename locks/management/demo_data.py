"""The data of the demo: its jobs, and the locks that are held at the start."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Job:
    """`usual_seconds` is the typical hold, `pause_seconds` the time between two holds."""

    name: str
    owners: tuple[str, ...]
    metadata: str
    fleet: str
    usual_seconds: int
    pause_seconds: int
    ttl_seconds: int = 60
    fails: float = 0.02
    # Rejected claims per minute of a hold, and waiters per hold.
    refused: float = 0.0
    waits: float = 0.0


@dataclass(frozen=True, kw_only=True)
class HeldLock:
    """A lock that is held at the start: for `held` seconds, last renewed `silent` seconds ago."""

    name: str
    held: int
    silent: int
    waiters: tuple[str, ...] = ()


RUNNERS = ("runner-7", "runner-12", "runner-3", "runner-9")
AGENTS = ("agent-opal", "agent-cedar", "agent-juno", "agent-moss")

# Not formatted: a job on a few lines is easier to read than one on ten.
JOBS = (
    Job(name="deploy/api", refused=0.35, waits=0.9,
        owners=RUNNERS, fleet="ci", usual_seconds=420, pause_seconds=900, fails=0.1,
        metadata="build={n} ref=main url=https://ci.harbor.example/builds/{n}"),
    Job(name="deploy/web", refused=0.2, waits=0.5,
        owners=RUNNERS, fleet="ci", usual_seconds=260, pause_seconds=1_700,
        metadata="build={n} ref=main url=https://ci.harbor.example/builds/{n}"),
    Job(name="deploy/billing", refused=0.1, waits=0.4,
        owners=RUNNERS[:2], fleet="ci", usual_seconds=540, pause_seconds=6_000, fails=0.08,
        metadata="build={n} ref=release/2026.11 approver=olga"),
    Job(name="migrate/orders-db", refused=0.12, waits=1.5,
        owners=("runner-3",), fleet="ci", usual_seconds=1_500, pause_seconds=20_000,
        ttl_seconds=120, fails=0.15, metadata="migration=0{n}_split_order_lines host=runner-3"),
    Job(name="terraform/prod-network", refused=0.03, waits=0.5,
        owners=("olga@laptop", "runner-12", "ada@laptop"), fleet="ci",
        usual_seconds=700, pause_seconds=9_000, ttl_seconds=300, fails=0.1,
        metadata='{{"workspace": "prod-network", "run": "run-{n}", "plan": "https://tf.harbor.example/runs/{n}"}}'),
    Job(name="cron/nightly-backup", refused=0.02,
        owners=("cron-a", "cron-b"), fleet="cron", usual_seconds=2_300,
        pause_seconds=20_000, ttl_seconds=120, metadata="host=cron-a target=s3://harbor-backups size=412GiB"),
    Job(name="cron/invoice-run", refused=0.65,
        owners=("cron-a", "cron-b"), fleet="cron", usual_seconds=95, pause_seconds=800,
        ttl_seconds=30, metadata="host=cron-b batch={n}"),
    Job(name="cron/rotate-certificates", owners=("cron-b",), fleet="cron", usual_seconds=40, pause_seconds=3_500,
        metadata="host=cron-b issuer=internal-ca"),
    Job(name="index/rebuild-search", refused=0.06,
        owners=("indexer-1", "indexer-2"), fleet="cron", usual_seconds=3_400,
        pause_seconds=1_200, ttl_seconds=90, fails=0.06, metadata="shard=eu-west-1/4 docs=18204331"),
    Job(name="cache/warm-eu", refused=0.3,
        owners=("indexer-1", "indexer-2"), fleet="cron", usual_seconds=150, pause_seconds=500,
        metadata="region=eu-west-1"),
    Job(name="issue-1842", refused=0.5,
        owners=AGENTS, fleet="agents", usual_seconds=1_900, pause_seconds=600,
        metadata="issue=https://git.harbor.example/harbor/api/issues/1842 step=tests model=large"),
    Job(name="issue-1851", refused=0.4,
        owners=AGENTS, fleet="agents", usual_seconds=1_200, pause_seconds=900,
        metadata="issue=https://git.harbor.example/harbor/api/issues/1851 step=review"),
    Job(name="issue-1855", refused=0.4,
        owners=AGENTS, fleet="agents", usual_seconds=800, pause_seconds=2_000, fails=0.2,
        metadata="issue=https://git.harbor.example/harbor/web/issues/1855 step=reproduce"),
    Job(name="path:src/auth.rs", refused=0.9, waits=0.8,
        owners=AGENTS, fleet="agents", usual_seconds=300, pause_seconds=700,
        metadata="branch=agent/juno/1842 reason='rename Session to Login'"),
    Job(name="path:migrations", refused=0.6, waits=0.6,
        owners=AGENTS, fleet="agents", usual_seconds=200, pause_seconds=1_500,
        metadata="branch=agent/moss/1855"),
    Job(name="queue/drain-mail", refused=1.4,
        owners=("mail-1", "mail-2", "mail-3"), fleet="cron", usual_seconds=22,
        pause_seconds=150, ttl_seconds=15, metadata="queue=outbound partition={n}"),
    Job(name="queue/settle-payments", refused=2.2, waits=0.05,
        owners=("pay-1", "pay-2"), fleet="cron", usual_seconds=9, pause_seconds=120,
        ttl_seconds=10, fails=0.004, metadata="provider=adyen batch={n}"),
    Job(name="cache/warm-us", owners=("indexer-1", "indexer-2"), fleet="cron", usual_seconds=35, pause_seconds=260,
        ttl_seconds=30, metadata="region=us-east-2"),
    Job(name="release/train-2026.11", owners=("ada@laptop",), fleet="ci", usual_seconds=5_000, pause_seconds=60_000,
        ttl_seconds=3_600, metadata="freeze until the train has left, ask Ada"),
    Job(name="staging/environment-2", refused=0.05, waits=0.7,
        owners=("qa-erin", "qa-tomas"), fleet="ci", usual_seconds=2_700,
        pause_seconds=900, ttl_seconds=900, metadata="for=checkout-redesign until=lunch"),
)  # fmt: skip

HELD_LOCKS = (
    HeldLock(name="migrate/orders-db", held=4_930, silent=131, waiters=("runner-7", "runner-12", "runner-9")),
    HeldLock(name="issue-1855", held=1_310, silent=75),
    HeldLock(name="deploy/billing", held=745, silent=47, waiters=("runner-12",)),
    HeldLock(name="cron/invoice-run", held=64, silent=24),
    HeldLock(name="release/train-2026.11", held=4_208, silent=1_012, waiters=("runner-3", "runner-9")),
    HeldLock(name="index/rebuild-search", held=2_960, silent=21),
    HeldLock(name="staging/environment-2", held=2_141, silent=140),
    HeldLock(name="issue-1842", held=1_533, silent=12, waiters=("agent-moss",)),
    HeldLock(name="terraform/prod-network", held=512, silent=58, waiters=("ada@laptop",)),
    HeldLock(name="issue-1851", held=421, silent=8),
    HeldLock(name="deploy/api", held=204, silent=4, waiters=("runner-12", "runner-9")),
    HeldLock(name="path:src/auth.rs", held=118, silent=17),
    HeldLock(name="cache/warm-eu", held=44, silent=11),
)

REASONS = (
    "runner rebooted, job was already red",
    "hotfix must go out, checked with the holder",
    "agent is stuck in a loop since an hour",
    "laptop is closed, its owner is on a train",
)
