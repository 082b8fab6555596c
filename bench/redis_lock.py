"""redis-py's own Lock, claimed and released by a thread for each connection: its script and its client, unchanged."""

import os
import resource
import threading
import time

import redis

from bench.slices import Slice, percentiles


def wait_ready(port: int) -> None:
    client = redis.Redis(port=port)
    for _ in range(200):
        try:
            client.ping()
            return
        except redis.ConnectionError:
            time.sleep(0.05)
    raise RuntimeError("redis-server does not answer")


def run(port: int, *, connections: int, seconds: int) -> Slice:
    """Spread over two processes, because one would be bound by its interpreter's lock."""
    readers = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    share = [connections // 2, connections - connections // 2]
    for threads in filter(None, share):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.write(writer, repr(_claim(port, threads, seconds)).encode())
            os._exit(0)
        os.close(writer)
        readers.append((child, reader))
    took: list[float] = []
    for child, reader in readers:
        with os.fdopen(reader) as told:
            took += [float(one) for one in told.read().strip("[]").split(", ")]
        os.waitpid(child, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    p50, p99 = percentiles([one * 1000 for one in took])
    return Slice(
        pairs_per_second=len(took) / seconds,
        p50_ms=p50,
        p99_ms=p99,
        failed=0,
        generator_cores=used / seconds,
    )


def _claim(port: int, threads: int, seconds: int) -> list[float]:
    client = redis.Redis(port=port, max_connections=threads)
    end = time.monotonic() + seconds
    took: list[float] = []

    def work(worker: int) -> None:
        number = 0
        while (began := time.monotonic()) < end:
            number += 1
            lock = client.lock(f"job-{os.getpid()}-{worker}-{number % 100}", timeout=60, thread_local=False)
            assert lock.acquire(blocking=False)
            lock.release()
            took.append(time.monotonic() - began)

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [round(one, 6) for one in took]
