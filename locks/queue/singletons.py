"""The one wait queue of this process."""

from locks.queue.wait_queue import WaitQueue

wait_queue = WaitQueue()
