"""Digits of 28 x 28 pixels, drawn from the fonts inside matplotlib's package.

    python examples/digits.py [--save digits.png]

Each digit of each font is converted once to a field of signed distances. A sample is such a field
after a random affine transform (rotation, shear, scale, shift), made thicker or thinner by a random
amount, with noise added. The fonts for testing are not used for training.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

try:
    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path as Outline
    from matplotlib.textpath import TextPath
except ModuleNotFoundError as e:
    raise SystemExit(f"digits are drawn by {e.name}, which is missing: pip install {e.name}") from e

Array = np.ndarray[Any, Any]

SIZE = 28
# a field has GRID points along an axis, from -REACH to REACH; digits have the height 1
GRID, REACH = 48, 0.65
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
TRAINING = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique",
    "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique",
    "DejaVuSansMono-BoldOblique", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic",
    "DejaVuSerif-BoldItalic", "cmr10", "cmb10", "cmti10",
)  # fmt: skip
HELD_OUT = (
    "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta", "cmss10", "cmtt10",
)  # fmt: skip


def draw(fonts: tuple[str, ...], count: int, seed: int) -> tuple[Array, Array]:
    """Pictures (count, 1, SIZE, SIZE), float32 from 0 to about 1, and their digits, int32."""
    rng = np.random.default_rng(seed)
    font, digits = rng.integers(len(fonts), size=count), rng.integers(10, size=count)

    def random(low: float, high: float) -> Array:
        return rng.uniform(low, high, (count, 1, 1))

    # rotation in radians, and shear: the shift to the side for each unit of height
    angle, shear = random(-0.2, 0.2), random(-0.2, 0.2)
    height, width = random(16, 22), random(0.75, 1.25)  # scale: pixels for the height of a digit
    stroke = random(-0.012, 0.03)  # thickness added on either side, relative to the height
    ink, noise = random(0.6, 1), random(0, 0.12)

    # The inverse transform gives the place of each pixel in the field of its digit.
    rows, cols = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    down, right = rows - random(-2.5, 2.5), cols - random(-2.5, 2.5)
    y = (np.cos(angle) * down - np.sin(angle) * right) / height
    x = (np.sin(angle) * down + np.cos(angle) * right) / height
    distance = interpolate(fields(fonts)[font, digits], y, (x - shear * y) / width)

    pictures = ink * np.clip((distance + stroke) * height + 0.5, 0, 1)
    pictures += noise * rng.standard_normal(pictures.shape)
    return pictures[:, None].astype(np.float32), digits.astype(np.int32)


def interpolate(field: Array, y: Array, x: Array) -> Array:
    """The values of field n at the points (y[n], x[n]), interpolated bilinearly."""
    n = np.arange(len(field))[:, None, None]
    y, x = (np.clip((v / REACH + 1) / 2 * (GRID - 1), 0, GRID - 1.001) for v in (y, x))
    row, col = y.astype(int), x.astype(int)
    y, x = y - row, x - col
    above = field[n, row, col] * (1 - x) + field[n, row, col + 1] * x
    below = field[n, row + 1, col] * (1 - x) + field[n, row + 1, col + 1] * x
    return above * (1 - y) + below * y


@lru_cache
def fields(fonts: tuple[str, ...]) -> Array:
    """The distance fields of all digits, (fonts, 10, GRID, GRID)."""
    faces = [FontProperties(fname=str(FONTS / f"{font}.ttf")) for font in fonts]
    return np.array(
        [
            [signed_distance(TextPath((0, 0), str(d), prop=face)) for d in range(10)]
            for face in faces
        ]
    )


def signed_distance(outline: Outline) -> Array:
    """The distances of GRID x GRID points from an outline, relative to its height, positive
    inside."""
    rings = outline.to_polygons(closed_only=True)
    corners = np.concatenate(rings)
    low, high = corners.min(0), corners.max(0)
    rings = [(ring - (low + high) / 2) / (high - low)[1] for ring in rings]
    start = np.concatenate([ring[:-1] for ring in rings])
    edge = np.concatenate([np.diff(ring, axis=0) for ring in rings])
    start, edge = start[(edge != 0).any(1)], edge[(edge != 0).any(1)]

    at = np.linspace(-REACH, REACH, GRID)
    dx = at[None, :, None] - start[:, 0]  # vectors from the start of each edge to each point
    dy = -at[:, None, None] - start[:, 1]  # flipped, because the first row is the top
    along = np.clip((dx * edge[:, 0] + dy * edge[:, 1]) / (edge**2).sum(1), 0, 1)
    square = (dx - along * edge[:, 0]) ** 2 + (dy - along * edge[:, 1]) ** 2
    # A point is inside if the numbers of upward and downward edges to its right differ.
    side = edge[:, 0] * dy - edge[:, 1] * dx
    upwards = (dy >= 0) & (dy < edge[:, 1]) & (side > 0)
    downwards = (dy < 0) & (dy >= edge[:, 1]) & (side < 0)
    inside = upwards.sum(-1) != downwards.sum(-1)
    return np.sqrt(square.min(-1)) * np.where(inside, 1, -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", help="write 200 digits of either kind as a picture")
    args = parser.parse_args()

    sheets = []
    for seed, fonts in enumerate((TRAINING, HELD_OUT)):
        pictures, digits = draw(fonts, 200, seed)
        sheets.append(pictures.reshape(10, 20, SIZE, SIZE).swapaxes(1, 2).reshape(10 * SIZE, -1))
        print(f"{len(fonts)} fonts, {len(pictures)} digits: {' '.join(map(str, digits[:20]))} ...")
    if args.save:
        from matplotlib.image import imsave

        imsave(args.save, np.concatenate(sheets), cmap="gray_r")


if __name__ == "__main__":
    main()
