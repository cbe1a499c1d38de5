"""Writes torch_values.json beside it: pools, conv1d and their gradients as torch computes them.

    python tests/kernels/pool/torch_values.py

needs torch (2.15 on a CPU made the file). Each case is a function of torch.nn.functional, its
arguments, its results, and the gradient of the sum of dy times the first result by each input;
elements are listed in C order. Inputs are multiples of 1/4, so that windows have equal elements.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

IMAGE, SIGNAL = (1, 2, 7, 8), (2, 3, 11)
CASES: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("max_pool2d", [IMAGE], {"kernel_size": 2}),
    ("max_pool2d", [IMAGE], {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("max_pool2d", [IMAGE], {"kernel_size": [2, 3], "stride": [2, 1], "padding": [1, 0],
                             "dilation": [1, 2], "ceil_mode": True}),
    ("max_pool2d", [(2, 8, 8)], {"kernel_size": 3, "stride": 1, "padding": 1}),
    ("max_pool1d", [SIGNAL], {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("max_pool1d", [SIGNAL], {"kernel_size": 2, "dilation": 3}),
    ("max_pool1d", [SIGNAL], {"kernel_size": 4, "ceil_mode": True}),
    ("avg_pool2d", [IMAGE], {"kernel_size": 2}),
    ("avg_pool2d", [IMAGE], {"kernel_size": 3, "stride": 2, "padding": 1,
                             "count_include_pad": False, "ceil_mode": True}),
    ("avg_pool2d", [IMAGE], {"kernel_size": [3, 2], "stride": 2, "padding": 1, "ceil_mode": True}),
    ("avg_pool2d", [IMAGE], {"kernel_size": 3, "stride": 1, "padding": 1, "divisor_override": 5}),
    ("avg_pool1d", [SIGNAL], {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("avg_pool1d", [SIGNAL], {"kernel_size": 3, "padding": 1, "count_include_pad": False}),
    ("avg_pool1d", [SIGNAL], {"kernel_size": 4, "stride": 3, "ceil_mode": True}),
    ("adaptive_max_pool2d", [IMAGE], {"output_size": [3, 5]}),
    ("adaptive_max_pool2d", [(1, 2, 6, 8)], {"output_size": [3, 4]}),
    ("adaptive_max_pool2d", [IMAGE], {"output_size": 1}),
    ("adaptive_max_pool1d", [SIGNAL], {"output_size": 4}),
    ("adaptive_max_pool1d", [SIGNAL], {"output_size": 1}),
    ("adaptive_max_pool1d", [SIGNAL], {"output_size": 13}),
    ("adaptive_avg_pool2d", [IMAGE], {"output_size": [3, 5]}),
    ("adaptive_avg_pool2d", [IMAGE], {"output_size": [None, 2]}),
    ("adaptive_avg_pool2d", [IMAGE], {"output_size": 1}),
    ("adaptive_avg_pool1d", [SIGNAL], {"output_size": 4}),
    ("adaptive_avg_pool1d", [SIGNAL], {"output_size": 1}),
    ("adaptive_avg_pool1d", [SIGNAL], {"output_size": 13}),
    ("max_unpool2d", [(1, 2, 3, 4)], {"kernel_size": 2}),
    ("max_unpool2d", [(1, 2, 3, 4)], {"kernel_size": 2, "output_size": [7, 9]}),
    ("max_unpool2d", [(3, 4, 4)], {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("max_unpool1d", [(2, 3, 5)], {"kernel_size": 2}),
    ("max_unpool1d", [(2, 3, 5)], {"kernel_size": 2, "output_size": [11]}),
    ("max_unpool1d", [(2, 3, 5)], {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("conv1d", [SIGNAL, (4, 3, 3), (4,)], {"stride": 2, "padding": 1}),
    ("conv1d", [SIGNAL, (6, 1, 2), (6,)], {"dilation": 3, "groups": 3}),
    ("conv1d", [SIGNAL, (2, 3, 4)], {"padding": "same"}),
]  # fmt: skip


def case(number: int, name: str, shapes: list[tuple[int, ...]], args: dict[str, Any]) -> Any:
    """One case as a dict of lists."""
    draw = torch.Generator().manual_seed(number)
    inputs = [(torch.randint(-9, 10, s, generator=draw) / 4).requires_grad_() for s in shapes]
    given, more = inputs, {}
    if "unpool" in name:
        more["indices"] = positions(int(name[-2]), args, shapes[0], draw)
        given = [*inputs, more["indices"]]
    function = getattr(torch.nn.functional, name)
    results = function(*given, **args, **({"return_indices": True} if "max_pool" in name else {}))
    y, *index = results if isinstance(results, tuple) else (results,)
    dy = torch.randint(-3, 4, y.shape, generator=draw) / 4
    (y * dy).sum().backward()
    found = {f"gradient{i}": x.grad for i, x in enumerate(inputs)}
    found |= {f"input{i}": x.detach() for i, x in enumerate(inputs)}
    found |= more | {"y": y.detach(), "dy": dy} | ({"index": index[0]} if index else {})
    tensors = {
        k: {"shape": list(v.shape), "values": [float(f"{e:.8g}") for e in v.flatten().tolist()]}
        for k, v in found.items()
    }
    return {"name": name, "args": args, "inputs": len(inputs), **tensors}


def positions(
    axes: int, args: dict[str, Any], shape: tuple[int, ...], draw: torch.Generator
) -> Any:
    """Different positions for all elements of an image of the result's size."""
    step = args.get("stride", args["kernel_size"])
    sizes = [
        (n - 1) * step - 2 * args.get("padding", 0) + args["kernel_size"] for n in shape[-axes:]
    ]
    places = torch.tensor(args.get("output_size", sizes)).prod().item()
    lead = shape[: len(shape) - axes]
    count = torch.tensor(shape[-axes:]).prod().item()
    planes = torch.tensor(lead).prod().item()
    rows = [torch.randperm(places, generator=draw)[:count] for _ in range(planes)]
    return torch.stack(rows).reshape(shape)


if __name__ == "__main__":
    found = [case(i, *c) for i, c in enumerate(CASES)]
    text = ",\n".join(json.dumps(c) for c in found)
    Path(__file__).with_suffix(".json").write_text(f"[\n{text}\n]\n", encoding="utf-8")
