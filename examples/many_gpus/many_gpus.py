"""A blocked product on all adapters of this machine, or of several machines: a Dask worker for each
adapter. With --kill, a worker dies in the middle, and nothing is lost.

    pip install distributed
    python many_gpus.py                              a LocalCluster: every adapter of this machine
    python many_gpus.py --kill
    python many_gpus.py --scheduler tcp://HOST:8786  a cluster that runs already
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import pykernels as pk

try:
    import psutil  # installed with distributed
    from distributed import Client, LocalCluster, Nanny, WorkerPlugin, as_completed, get_worker
except ImportError as e:
    sys.exit(f"this example needs the package {e.name}: pip install distributed")

Array = npt.NDArray[np.float32]
# the first row and the first column of a tile, and the first k of a part
Task = tuple[int, int, int]


class OneAdapter(WorkerPlugin):
    """Gives each worker a device on an adapter of its own machine.

    A worker's name ends with its number; a worker that starts again after a crash keeps it.
    """

    name = "one-adapter"

    def setup(self, worker: Any) -> None:
        own = int(str(worker.name).rpartition("-")[2]) % len(adapters())
        worker.device = pk.Device(own, engine="wgpu")

    def teardown(self, worker: Any) -> None:
        worker.device.close()


class Patient(Nanny):
    """Waits longer than Dask's five seconds for a worker that ends, because the worker frees its
    device first."""

    async def close(self, timeout: float = 60, reason: str = "nanny-close") -> str:
        return await super().close(timeout=timeout, reason=reason)


def adapters() -> list[pk.AdapterInfo]:
    """The adapters of one engine only, because another engine lists the same GPUs again."""
    return pk.list_adapters("wgpu")


def matrix(name: int, row: int, column: int, side: int) -> Array:
    """A part of one of the two matrices. A real program would read it from a file."""
    rng = np.random.default_rng((name, row, column))
    return rng.standard_normal((side, side), np.float32)


def product(task: Task, side: int) -> tuple[Array, str, int]:
    """Returns part k of a tile, computed by this worker; the names of the worker and its adapter;
    and the number of the worker's process."""
    dev = get_worker().device
    row, column, k = task
    a = dev.tensor(matrix(0, row, k, side))
    b = dev.tensor(matrix(1, k, column, side))
    return (a @ b).numpy(), f"worker {get_worker().name}: {dev.info['name']}", os.getpid()


def tasks(size: int, side: int) -> Iterator[Task]:
    each = range(0, size, side)
    return ((row, column, k) for row in each for column in each for k in each)


def run(client: Client, size: int, side: int, kill: bool) -> tuple[Array, Counter[str]]:
    """The product, and the number of parts that each worker computed. Parts are added as they
    arrive."""
    result = np.zeros((size, size), np.float32)
    where: Counter[str] = Counter()
    todo = list(tasks(size, side))
    futures = client.map(product, todo, side=side, pure=False)
    place = dict(zip((f.key for f in futures), todo, strict=True))
    start = time.perf_counter()
    for done, (future, found) in enumerate(as_completed(futures, with_results=True), 1):
        part, by, process = found
        row, column, _ = place.pop(future.key)  # raises KeyError if a part came twice
        result[row : row + side, column : column + side] += part
        where[by] += 1
        left = (time.perf_counter() - start) / done * (len(todo) - done)
        print(f"\r{done} of {len(todo)} parts, {left:.0f} s left ", end="", flush=True)
        if kill and done == max(len(todo) // 4, 1):
            # Ends the worker's process as in a crash. Its nanny starts another process, and Dask
            # repeats the tasks whose results were lost or not yet computed.
            psutil.Process(process).kill()
            print(f"\nkilled {by}")
    print()
    return result, where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--scheduler", help="the address of a cluster that runs already")
    parser.add_argument("--workers", type=int, help="workers here; default: one for each adapter")
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of the matrices")
    parser.add_argument("--side", type=int, default=256, help="rows and columns of a tile")
    parser.add_argument("--kill", action="store_true", help="kill a worker in the middle")
    args = parser.parse_args()
    if args.size < 1 or args.side < 1 or args.size % args.side:
        parser.error("--size must be a multiple of --side")
    if args.scheduler and args.kill:
        parser.error("--kill ends a process of this machine: it goes without --scheduler")
    with contextlib.ExitStack() as stack:
        address = args.scheduler or stack.enter_context(
            LocalCluster(
                n_workers=args.workers or len(adapters()),
                threads_per_worker=1,  # one thread, because a device works on one task at a time
                worker_class=Patient,
                dashboard_address=None,
            )
        )
        client = stack.enter_context(Client(address))
        client.register_plugin(OneAdapter())
        result, where = run(client, args.size, args.side, args.kill)
    for by, parts in sorted(where.items()):
        print(f"{parts:5} parts by {by}")
    check(result, args.side)


def check(result: Array, side: int) -> None:
    """Compares a row of tiles with numpy."""
    each = range(0, len(result), side)
    for column in each:
        parts = ((matrix(0, 0, k, side), matrix(1, k, column, side)) for k in each)
        want = sum(a.astype(np.float64) @ b.astype(np.float64) for a, b in parts)
        got = result[:side, column : column + side]
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * len(result))
    print("the product agrees with numpy")


if __name__ == "__main__":
    main()
