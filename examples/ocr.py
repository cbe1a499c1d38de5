"""Reads the text of a picture with three networks of PaddleOCR. The first network finds the lines,
the second finds lines that are upside down, and the third reads the letters.

    pip install onnx onnxruntime matplotlib
    pip download --no-deps rapidocr-onnxruntime && unzip rapidocr_onnxruntime-*.whl
    python examples/ocr.py rapidocr_onnxruntime/models [--save ocr.png]

The script draws the picture. All three networks run with pykernels and with onnxruntime, and both
must read the same text.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

try:
    import matplotlib
    import onnx
    from PIL import Image, ImageDraw, ImageFont

    from pykernels.onnx.checking import Reference
except ModuleNotFoundError as e:
    said = f"{e.name} is missing: pip install onnx onnxruntime matplotlib"
    raise SystemExit(said) from e

import pykernels as pk

Array = np.ndarray[Any, Any]
Network = Callable[[Array], Array]

FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
SIZE = (320, 192)  # multiples of 32, because the first network needs them
# Each line: text, font, height of letters, left upper corner, and whether it is upside down.
LINES = (
    ("pykernels", "DejaVuSans-Bold", 32, (20, 14), False),
    ("WGSL: 1,024", "DejaVuSansMono", 26, (60, 62), False),
    ("no CUDA", "DejaVuSerif", 30, (130, 102), False),
    ("read twice", "DejaVuSans", 26, (36, 150), True),
)
NAMES = {
    "detect": "ch_PP-OCRv4_det_infer.onnx",
    "turn": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "read": "ch_PP-OCRv4_rec_infer.onnx",
}


class Box(NamedTuple):
    """The box of a line of text, in pixels."""

    left: int
    top: int
    right: int
    bottom: int


def draw() -> Image.Image:
    """The picture: four lines; one is rotated by 180 degrees."""
    picture = Image.new("RGB", SIZE, (244, 240, 230))
    for text, font, size, corner, turned in LINES:
        face = ImageFont.truetype(str(FONTS / f"{font}.ttf"), size)
        width, height = (int(v) + 4 for v in face.getbbox(text)[2:])
        line = Image.new("RGB", (width, height), (244, 240, 230))
        ImageDraw.Draw(line).text((2, 2), text, (30, 34, 60), face)
        picture.paste(line.rotate(180) if turned else line, corner)
    return picture


def as_input(pictures: list[Image.Image], width: int = 0) -> Array:
    """Pictures as (N, 3, H, W) from -1 to 1, blue first; narrow pictures get zeros at their
    right."""
    rows = [np.asarray(p, np.float32)[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1 for p in pictures]
    full = max(width, *(r.shape[2] for r in rows))
    return np.stack([np.pad(r, ((0, 0), (0, 0), (0, full - r.shape[2]))) for r in rows])


def boxes_of(chances: Array) -> list[Box]:
    """The boxes of lines, from the probability of each pixel to be in a line. A box is a connected
    area with a margin, because the network was trained on smaller areas."""
    left = chances > 0.3
    found = []
    while left.any():
        start = tuple(int(v[0]) for v in left.nonzero())
        ys, xs = zip(*connected(left, start), strict=True)
        top, bottom, first, last = min(ys), max(ys) + 1, min(xs), max(xs) + 1
        rows, cols = bottom - top, last - first
        if min(rows, cols) < 3 or chances[top:bottom, first:last].mean() < 0.5:
            continue
        more = round(1.6 * rows * cols / (2 * (rows + cols)))
        found.append(
            Box(
                max(first - more, 0), max(top - more, 0),
                min(last + more, chances.shape[1]), min(bottom + more, chances.shape[0]),
            )
        )  # fmt: skip
    return sorted(found, key=lambda b: b.top)


def connected(mask: Array, start: tuple[int, ...]) -> list[tuple[int, int]]:
    """The pixels that are connected with a pixel; they are removed from the mask."""
    found, waiting = [], [(start[0], start[1])]
    mask[start] = False
    while waiting:
        y, x = waiting.pop()
        found.append((y, x))
        for at in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            if 0 <= at[0] < mask.shape[0] and 0 <= at[1] < mask.shape[1] and mask[at]:
                mask[at] = False
                waiting.append(at)
    return found


def read(
    picture: Image.Image, networks: dict[str, Network], alphabet: str
) -> list[tuple[Box, str]]:
    """Lines and their texts, from top to bottom."""
    boxes = boxes_of(networks["detect"](as_input([picture]))[0, 0])
    lines = [picture.crop(b) for b in boxes]
    # (N, 2): the probabilities of upright and of upside down
    turned = networks["turn"](as_input([p.resize((192, 48)) for p in lines])).argmax(1)
    upright = [p.rotate(180) if t else p for p, t in zip(lines, turned, strict=True)]
    widths = [round(48 * p.width / p.height) for p in upright]
    lines = [p.resize((w, 48)) for p, w in zip(upright, widths, strict=True)]
    chances = networks["read"](as_input(lines, -(-max(widths) // 32) * 32))
    return [(b, decode(c, alphabet)) for b, c in zip(boxes, chances, strict=True)]


def decode(chances: Array, alphabet: str) -> str:
    """A letter for each step, except steps with class 0 and steps that repeat the step before."""
    steps = chances.argmax(-1)
    kept = steps[(steps != np.roll(steps, 1)) | (np.arange(len(steps)) == 0)]
    return "".join(alphabet[s - 1] for s in kept if s)


def ours(model: onnx.ModelProto, device: pk.Device) -> Network:
    """Loads a network on the device."""
    network = pk.onnx.load(model, device=device)
    (name,) = (v.name for v in network.inputs)
    return lambda x: next(iter(network({name: x}).values()))


def theirs(model: onnx.ModelProto) -> Network:
    """Loads a network in onnxruntime."""
    session = Reference(model)
    return lambda x: next(iter(session.run({model.graph.input[0].name: x}).values()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, help="the folder with the three networks")
    parser.add_argument("--save", type=Path, help="write the picture with its boxes")
    args = parser.parse_args()

    models = {key: onnx.load(str(args.models / name)) for key, name in NAMES.items()}
    letters = next(p.value for p in models["read"].metadata_props if p.key == "character")
    alphabet = "".join(letters.splitlines()) + " "
    device, picture = pk.default_device(), draw()
    start = time.perf_counter()
    found = read(picture, {k: ours(m, device) for k, m in models.items()}, alphabet)
    print(f"read in {time.perf_counter() - start:.1f} s, compiling included:")
    for box, text in found:
        print(f"  {text!r} at {tuple(box)}")
    wanted = read(picture, {k: theirs(m) for k, m in models.items()}, alphabet)
    if args.save:
        canvas = ImageDraw.Draw(picture)
        for box, text in found:
            canvas.rectangle(box, outline=(200, 40, 40), width=2)
            canvas.text((box.left + 4, box.top - 11), text, (200, 40, 40))
        picture.quantize(32).save(args.save, optimize=True)
    if found != wanted:
        raise SystemExit(f"onnxruntime reads {wanted}")
    if [text for _, text in found] != [line[0] for line in LINES]:
        raise SystemExit(f"the picture says {[line[0] for line in LINES]}")


if __name__ == "__main__":
    main()
