"""Replicas played by threads of one process: what a real strategy is compared with.

Every thread runs its own chains; `pool_fn` waits for all of them and adds up what they bring, in
the order of the replicas.
"""

import threading
from concurrent import futures

_TIMEOUT_SECONDS = 120


class Lockstep:
    """Runs one function a replica, in as many threads that meet in `pool_fn`."""

    def __init__(self, num_replicas):
        self._barrier = threading.Barrier(num_replicas, timeout=_TIMEOUT_SECONDS)
        self._brought = [None] * num_replicas
        self._own = threading.local()
        self.num_meetings = 0

    def pool_fn(self, tensors):
        """The sums over all replicas."""
        self._brought[self._own.replica] = tensors
        if self._barrier.wait() == 0:
            self.num_meetings += 1
        total = [sum(same) for same in zip(*self._brought, strict=True)]
        self._barrier.wait()
        return total

    def run(self, functions):
        """The results of the functions, one a replica."""

        def run_one(replica, function):
            self._own.replica = replica
            try:
                return function()
            except BaseException:
                self._barrier.abort()
                raise

        with futures.ThreadPoolExecutor(len(functions)) as pool:
            running = [pool.submit(run_one, *item) for item in enumerate(functions)]
            return [future.result() for future in running]
