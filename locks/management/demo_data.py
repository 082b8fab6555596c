"""The demo's cast: which work there is, who does it, and how it goes."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Work:
    """`usual_seconds` is how long a hold lasts, `pause_seconds` how long the name is free in between."""

    name: str
    owners: tuple[str, ...]
    metadata: str
    fleet: str
    usual_seconds: int
    pause_seconds: int
    ttl_seconds: int = 60
    fails: float = 0.02
    # How many others ask for it in vain in a minute of a hold, and how many stand in line for it.
    refused: float = 0.0
    waits: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a lock stands when the curtain opens: held for `held`, last renewed `silent` seconds ago."""

    name: str
    held: int
    silent: int
    waiters: tuple[str, ...] = ()


RUNNERS = ("runner-7", "runner-12", "runner-3", "runner-9")
AGENTS = ("agent-opal", "agent-cedar", "agent-juno", "agent-moss")

WORK = (
    Work(name="deploy/api", refused=0.35, waits=0.9,
         owners=RUNNERS, fleet="ci", usual_seconds=420, pause_seconds=900, fails=0.1,
         metadata="build={n} ref=main url=https://ci.harbor.example/builds/{n}"),
    Work(name="deploy/web", refused=0.2, waits=0.5,
         owners=RUNNERS, fleet="ci", usual_seconds=260, pause_seconds=1_700,
         metadata="build={n} ref=main url=https://ci.harbor.example/builds/{n}"),
    Work(name="deploy/billing", refused=0.1, waits=0.4,
         owners=RUNNERS[:2], fleet="ci", usual_seconds=540, pause_seconds=6_000, fails=0.08,
         metadata="build={n} ref=release/2026.11 approver=olga"),
    Work(name="migrate/orders-db", refused=0.12, waits=1.5,
         owners=("runner-3",), fleet="ci", usual_seconds=1_500, pause_seconds=20_000,
         ttl_seconds=120, fails=0.15, metadata="migration=0{n}_split_order_lines host=runner-3"),
    Work(name="terraform/prod-network", refused=0.03, waits=0.5,
         owners=("olga@laptop", "runner-12", "ada@laptop"), fleet="ci",
         usual_seconds=700, pause_seconds=9_000, ttl_seconds=300, fails=0.1,
         metadata='{{"workspace": "prod-network", "run": "run-{n}", "plan": "https://tf.harbor.example/runs/{n}"}}'),
    Work(name="cron/nightly-backup", refused=0.02,
         owners=("cron-a", "cron-b"), fleet="cron", usual_seconds=2_300,
         pause_seconds=20_000, ttl_seconds=120, metadata="host=cron-a target=s3://harbor-backups size=412GiB"),
    Work(name="cron/invoice-run", refused=0.65,
         owners=("cron-a", "cron-b"), fleet="cron", usual_seconds=95, pause_seconds=800,
         ttl_seconds=30, metadata="host=cron-b batch={n}"),
    Work(name="cron/rotate-certificates", owners=("cron-b",), fleet="cron", usual_seconds=40, pause_seconds=3_500,
         metadata="host=cron-b issuer=internal-ca"),
    Work(name="index/rebuild-search", refused=0.06,
         owners=("indexer-1", "indexer-2"), fleet="cron", usual_seconds=3_400,
         pause_seconds=1_200, ttl_seconds=90, fails=0.06, metadata="shard=eu-west-1/4 docs=18204331"),
    Work(name="cache/warm-eu", refused=0.3,
         owners=("indexer-1", "indexer-2"), fleet="cron", usual_seconds=150, pause_seconds=500,
         metadata="region=eu-west-1"),
    Work(name="issue-1842", refused=0.5,
         owners=AGENTS, fleet="agents", usual_seconds=1_900, pause_seconds=600,
         metadata="issue=https://git.harbor.example/harbor/api/issues/1842 step=tests model=large"),
    Work(name="issue-1851", refused=0.4,
         owners=AGENTS, fleet="agents", usual_seconds=1_200, pause_seconds=900,
         metadata="issue=https://git.harbor.example/harbor/api/issues/1851 step=review"),
    Work(name="issue-1855", refused=0.4,
         owners=AGENTS, fleet="agents", usual_seconds=800, pause_seconds=2_000, fails=0.2,
         metadata="issue=https://git.harbor.example/harbor/web/issues/1855 step=reproduce"),
    Work(name="path:src/auth.rs", refused=0.9, waits=0.8,
         owners=AGENTS, fleet="agents", usual_seconds=300, pause_seconds=700,
         metadata="branch=agent/juno/1842 reason='rename Session to Login'"),
    Work(name="path:migrations", refused=0.6, waits=0.6,
         owners=AGENTS, fleet="agents", usual_seconds=200, pause_seconds=1_500,
         metadata="branch=agent/moss/1855"),
    Work(name="queue/drain-mail", refused=1.4,
         owners=("mail-1", "mail-2", "mail-3"), fleet="cron", usual_seconds=22,
         pause_seconds=150, ttl_seconds=15, metadata="queue=outbound partition={n}"),
    Work(name="queue/settle-payments", refused=2.2, waits=0.05,
         owners=("pay-1", "pay-2"), fleet="cron", usual_seconds=9, pause_seconds=120,
         ttl_seconds=10, fails=0.004, metadata="provider=adyen batch={n}"),
    Work(name="cache/warm-us", owners=("indexer-1", "indexer-2"), fleet="cron", usual_seconds=35, pause_seconds=260,
         ttl_seconds=30, metadata="region=us-east-2"),
    Work(name="release/train-2026.11", owners=("ada@laptop",), fleet="ci", usual_seconds=5_000, pause_seconds=60_000,
         ttl_seconds=3_600, metadata="freeze until the train has left, ask Ada"),
    Work(name="staging/environment-2", refused=0.05, waits=0.7,
         owners=("qa-erin", "qa-tomas"), fleet="ci", usual_seconds=2_700,
         pause_seconds=900, ttl_seconds=900, metadata="for=checkout-redesign until=lunch"),
)  # fmt: skip

STANDING = (
    Standing(name="migrate/orders-db", held=4_930, silent=131, waiters=("runner-7", "runner-12", "runner-9")),
    Standing(name="issue-1855", held=1_310, silent=75),
    Standing(name="deploy/billing", held=745, silent=47, waiters=("runner-12",)),
    Standing(name="cron/invoice-run", held=64, silent=24),
    Standing(name="release/train-2026.11", held=4_208, silent=1_012, waiters=("runner-3", "runner-9")),
    Standing(name="index/rebuild-search", held=2_960, silent=21),
    Standing(name="staging/environment-2", held=2_141, silent=140),
    Standing(name="issue-1842", held=1_533, silent=12, waiters=("agent-moss",)),
    Standing(name="terraform/prod-network", held=512, silent=58, waiters=("ada@laptop",)),
    Standing(name="issue-1851", held=421, silent=8),
    Standing(name="deploy/api", held=204, silent=4, waiters=("runner-12", "runner-9")),
    Standing(name="path:src/auth.rs", held=118, silent=17),
    Standing(name="cache/warm-eu", held=44, silent=11),
)

REASONS = (
    "runner rebooted, job was already red",
    "hotfix must go out, checked with the holder",
    "agent is stuck in a loop since an hour",
    "laptop is closed, its owner is on a train",
)
