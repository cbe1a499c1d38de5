"""The main launches of a decoding step: products with one row, attention, softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

import pykernels as pk
from pykernels.bench.case import CheckFailed
from pykernels.bench.check import verdict

__all__ = ["LARGE", "SMALL", "Chain", "Size"]

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Size:
    """The sizes of a chain: the number of blocks of four launches, of query heads and of key heads,
    the size of a head, and the number of keys. Each of the `layers` has its own weights and keys;
    the blocks use the layers in turn."""

    blocks: int
    layers: int
    heads: int
    shared: int
    head: int
    keys: int

    @property
    def width(self) -> int:
        return self.heads * self.head


# the sizes of Llama 3.2 1B
LARGE = Size(blocks=50, layers=8, heads=32, shared=8, head=64, keys=1000)
SMALL = Size(blocks=4, layers=2, heads=4, shared=2, head=16, keys=40)


class Chain:
    """A chain of launches (200 for the size LARGE), which uses the same buffers in each run. Each
    launch reads the result of the launch before it. Calling the chain launches them; `result` is
    the output of the last launch."""

    def __init__(self, dev: pk.Device, size: Size) -> None:
        self.dev, self.size = dev, size
        rng = np.random.default_rng(0)
        n, width = size.shared, size.width

        def uniform(*shape: int) -> pk.Tensor:
            return dev.tensor((rng.random(shape, np.float32) * 2 - 1).astype(np.float16))

        self.token = uniform(1, width)
        self.layers = [
            (
                uniform(width, width), uniform(1, n, size.keys, size.head),
                uniform(1, n, size.keys, size.head), uniform(width, width),
            )
            for _ in range(size.layers)
        ]  # fmt: skip
        self.q, self.o, self.y, self.result = (dev.empty((1, width), "float16") for _ in range(4))
        heads = (1, size.heads, 1, size.head)
        self.q_heads, self.o_heads = self.q.reshape(heads), self.o.reshape(heads)

    @property
    def launches(self) -> int:
        return 4 * self.size.blocks

    def __call__(self) -> None:
        self.run(lambda kernel, names, *tensors: kernel(*tensors))

    def run(self, launch: Callable[..., object]) -> None:
        """Pass each call to `launch`: the kernel, the names of its arguments, their tensors."""
        kernels, x = pk.kernels, self.token
        for i in range(self.size.blocks):
            wq, k, v, wo = self.layers[i % self.size.layers]
            launch(kernels.mul_mat, "a b dst", wq, x, self.q)
            launch(kernels.flash_attn, "q k v dst", self.q_heads, k, v, self.o_heads)
            launch(kernels.mul_mat, "a b dst", wo, self.o, self.y)
            launch(kernels.softmax, "x dst", self.y, self.result)
            x = self.result

    def check(self) -> Array:
        """Compare the launches of each layer with their references. Returns the result of the
        chain. Raises CheckFailed."""
        left = 4 * self.size.layers

        def launch(kernel: Any, names: str, *tensors: pk.Tensor) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                kernel(*tensors)
                return
            arrays = dict(zip(names.split(), (t.numpy() for t in tensors[:-1]), strict=False))
            kernel(*tensors)
            found = verdict(kernel.__name__, arrays, {}, [tensors[-1].numpy()])
            if found.wrong:
                raise CheckFailed(f"[chain] {kernel.__name__}: {found}")

        self.run(launch)
        return self.result.numpy()

    def same(self, want: Array, launch: Callable[[], object], what: str) -> None:
        """Raise CheckFailed unless `launch`, which launches the chain, gives the bits of `want`."""
        self.result.write(np.zeros_like(want))
        launch()
        if not np.array_equal(self.result.numpy().view(np.uint16), want.view(np.uint16)):
            raise CheckFailed(f"[chain] {what}: not the bits of its calls one by one")

    def torch(self, torch: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """The chain in eager torch: a function that returns the result, and a function that also
        reads it."""
        layers = [[torch.from_numpy(t.numpy()).cuda() for t in layer] for layer in self.layers]
        token = torch.from_numpy(self.token.numpy()).cuda()
        f, size = torch.nn.functional, self.size
        heads = (1, size.heads, 1, size.head)

        def launch() -> Any:
            x = token
            for i in range(size.blocks):
                wq, k, v, wo = layers[i % size.layers]
                q = f.linear(x, wq).view(heads)
                o = f.scaled_dot_product_attention(q, k, v, enable_gqa=True)
                x = torch.softmax(f.linear(o.view(1, size.width), wo), -1)
            return x

        return launch, lambda: launch().cpu()
