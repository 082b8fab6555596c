"""redis-py's own Lock, unchanged, claimed and released by one thread per connection."""

import multiprocessing
import os
import threading
import time

import redis

from bench.samples import Sample, children_cpu_seconds, percentiles


def wait_ready(port: int) -> None:
    client = redis.Redis(port=port)
    for _ in range(200):
        try:
            client.ping()
            return
        except redis.ConnectionError:
            time.sleep(0.05)
    raise RuntimeError("redis-server does not answer")


def run(port: int, *, connections: int, seconds: int) -> Sample:
    """In two processes: one would be limited by its interpreter lock."""
    cpu_before = children_cpu_seconds()
    threads = [count for count in (connections // 2, connections - connections // 2) if count]
    with multiprocessing.get_context("fork").Pool(len(threads)) as pool:
        durations = [ms for part in pool.starmap(_claim, [(port, count, seconds) for count in threads]) for ms in part]
        pool.close()
        pool.join()
    p50, p99 = percentiles(durations)
    return Sample(
        pairs_per_second=len(durations) / seconds, p50_ms=p50, p99_ms=p99, failed=0,
        generator_cores=(children_cpu_seconds() - cpu_before) / seconds,
    )  # fmt: skip


def _claim(port: int, threads: int, seconds: int) -> list[float]:
    """Milliseconds of each claim-release pair."""
    client = redis.Redis(port=port, max_connections=threads)
    end = time.monotonic() + seconds
    durations: list[float] = []

    def work(worker: int) -> None:
        number = 0
        while (started := time.monotonic()) < end:
            number += 1
            lock = client.lock(f"job-{os.getpid()}-{worker}-{number % 100}", timeout=60, thread_local=False)
            assert lock.acquire(blocking=False)
            lock.release()
            durations.append((time.monotonic() - started) * 1000)

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return durations
