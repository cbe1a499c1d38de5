"""Broken files of every format that is read: a documented error or a right answer, in bounded time.

    python -m tests.proofs.file_fuzz [--only FORMAT ...] [--count 2000] [--seed 0]

A whole file is changed a few times: words and numbers of its text, or bits, lengths and the end of
its bytes. The process may take 4 GiB of memory, write 16 MiB into a file and open files below its
own folder only, and each file 5 s of the processor. `tests/onnx/fuzz.py` has ONNX networks.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from codegen.errors import BuildError
from codegen.ops import all_rows
from codegen.spec import load as load_spec
from pykernels import gguf
from pykernels.cli import Missing
from pykernels.cli.run import _array
from pykernels.errors import ArgumentError
from pykernels.export._write import _hashes
from pykernels.tuning import load as load_tuning
from pykernels.validate import Lints, Source, validate
from pykernels.validate._files import gather, read_limits
from pykernels.wgsl.texts import of_body

__all__ = ["FORMATS", "Format", "fuzz"]

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
checkpoints = importlib.import_module("checkpoints")
ROOT = Path(__file__).resolve().parents[2]
SECONDS = 5
MEMORY = 4 << 30
NUMBERS = ("0", "1", "-1", "3", "65536", "4294967296", "9223372036854775808", "1e999", "nan", "0.5",
           "1" * 40)  # fmt: skip
WORDS = (
    "true", "[]", "{}", '""', "''", "[[[", "null", "\\u0000", "\x00", "\ufeff", "é", "x" * 300,
    "u32", "fn", "array<", "}", "(", "@", "*/", "/*", "//", "\n\n", "=", "..", "$", "{{", "%",
)  # fmt: skip
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Format:
    """One format: whole files, how they are read, and the errors that its page names."""

    suffix: str
    bases: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]
    errors: tuple[type[Exception], ...]
    text: bool


def change_text(data: bytes, rng: random.Random) -> bytes:
    """Words and numbers are replaced, repeated, left out or change places; lines too."""
    words = _TOKEN.findall(data.decode())
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(words))
        how = rng.randrange(8)
        if how == 0:
            words[at] = rng.choice(WORDS)
        elif how == 1:
            numbers = [i for i, w in enumerate(words) if w[0].isdigit()] or [at]
            words[rng.choice(numbers)] = rng.choice(NUMBERS)
        elif how == 2:
            del words[at : at + rng.choice([1, 2, 8])]
        elif how == 3:
            words[at:at] = words[at : at + rng.choice([1, 4, 40])] * rng.choice([1, 2, 50])
        elif how == 4:
            other = rng.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif how == 5:
            words[at] = words[at][::-1]
        elif how == 6:
            del words[at:]
        else:
            words[at] = rng.choice(["(", "[", "{", "<"]) * rng.choice([10, 1000, 20000])
        words = words or [" "]
    return "".join(words).encode()


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bits are flipped, lengths are replaced, parts are repeated or left out."""
    out = bytearray(data)
    head = min(len(out), 400)  # where lengths and names are
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(max(len(out) if rng.random() < 0.2 else min(head, len(out)), 1))
        how = rng.randrange(6)
        if how == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            value = rng.choice([0, 1, 255, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
            size = rng.choice([2, 4, 8])
            out[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif how == 2:
            del out[at:]
        elif how == 3:
            del out[at : at + rng.choice([1, 8, 64])]
        elif how == 4:
            out[at:at] = out[at : at + rng.choice([1, 8, 64])] * rng.choice([1, 3, 100])
        else:
            out[at : at + 4] = rng.randbytes(4)
    return bytes(out)


def _files(folder: str, pattern: str, most: int) -> Callable[[Path], list[bytes]]:
    def found(_: Path) -> list[bytes]:
        paths = sorted((ROOT / folder).rglob(pattern))
        return [p.read_bytes() for p in paths[:: max(1, len(paths) // most)]]

    return found


def _texts(folder: Path) -> list[bytes]:
    """Texts of the corpus and of the build."""
    built = [next(iter(of_body(name).values())) for name in ("softmax_partial", "gemm_tile", "cpy")]
    return [
        *_files("tests/validate", "*.wgsl", 12)(folder),
        *(text.wgsl.encode() for text in built),
    ]


def _specs(_: Path) -> list[bytes]:
    """Specs that need no other file of their family."""
    names = ("linalg/solve_tri", "move/nonzero_scan", "norm/layer_norm", "resize/resize")
    return [(ROOT / f"kernels/{name}.wgsl").read_bytes() for name in names]


def _wgsl(path: Path) -> None:
    sources, _, _ = gather([path])
    validate(
        [Source(s.name, s.text, s.limits, s.features, s.overrides) for s in sources], [Lints()]
    )


def _arrays(_: Path) -> list[bytes]:
    found = []
    for array in (np.arange(12.0).reshape(3, 4), np.zeros((2, 0), "f2"), np.array(3, "i4")):
        out = io.BytesIO()
        np.save(out, array)
        found.append(out.getvalue())
    return found


def _weights(folder: Path) -> list[bytes]:
    import gguf as writer_of

    writer = writer_of.GGUFWriter(folder / "whole.gguf", "llama")
    writer.add_uint32("llama.block_count", 7)
    writer.add_array("tokenizer.ggml.tokens", ["a", "\u00e9", "abc"] * 5)
    writer.add_tensor("w", np.arange(32, dtype=np.float32).reshape(4, 8))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return [(folder / "whole.gguf").read_bytes()]


def _read_weights(path: Path) -> None:
    file = gguf.load(path)
    _ = file.metadata, [(file.shape(n), file.type(n)) for n in file]


def _checkpoint(folder: Path) -> list[bytes]:
    weights = {"a.weight": np.ones((3, 4), "f4"), "b": np.zeros(7, "f2"), "c": np.array(2.0)}
    checkpoints.write(folder / "whole.safetensors", weights)
    return [(folder / "whole.safetensors").read_bytes()]


def _manifest(_: Path) -> list[bytes]:
    files = {"softmax.wgsl": "0" * 64}
    return [json.dumps({"generator": "pykernels", "kernels": {}, "files": files}).encode()]


ROWS = all_rows(ROOT / "kernels")
FORMATS = {
    "wgsl": Format(".wgsl", _texts, _wgsl, (), True),
    "spec": Format(
        ".wgsl", _specs,
        lambda p: load_spec(p, "kernels/family/file.wgsl", ROWS), (BuildError,), True,
    ),
    "tuning": Format(
        ".toml", _files("pykernels/tuning", "*.toml", 6), lambda p: load_tuning(str(p)),
        (ArgumentError,), True,
    ),
    "limits": Format(
        ".json", lambda _: [b'{"maxBindGroups": 4, "max-storage-buffers-per-shader-stage": 8}'],
        lambda p: read_limits(str(p)), (ArgumentError,), True,
    ),
    "npy": Format(".npy", _arrays, lambda p: _array(str(p)), (Missing,), False),
    "gguf": Format(".gguf", _weights, _read_weights, (ArgumentError,), False),
    "safetensors": Format(
        ".safetensors", _checkpoint, checkpoints._read, (ValueError,), False
    ),
    "manifest": Format("", _manifest, lambda p: _hashes(p.parent), (), True),
}  # fmt: skip


def fuzz(name: str, folder: Path, count: int, seed: int) -> Iterator[tuple[int, str, float]]:
    """The verdict on each file ("read", "refused", or what went wrong), and its seconds."""
    format_ = FORMATS[name]
    bases = format_.bases(folder)
    path = folder / ("manifest.json" if name == "manifest" else f"file{format_.suffix}")
    before = set(os.listdir(folder)) | {path.name}
    for base in bases:
        path.write_bytes(base)
        format_.read(path)
    for number in range(count):
        rng = random.Random(f"{name}/{seed}/{number}")
        change = change_text if format_.text and rng.random() < 0.9 else change_bytes
        try:
            path.write_bytes(change(rng.choice(bases), rng))
        except UnicodeDecodeError:  # a text that is none
            path.write_bytes(change_bytes(rng.choice(bases), rng))
        began = time.process_time()
        try:
            format_.read(path)
            verdict = "read"
        except format_.errors:
            verdict = "refused"
        except Exception as e:
            verdict = f"{type(e).__name__}: {e}"[:200]
        took = time.process_time() - began
        if took > SECONDS:
            verdict = f"{took:.1f} s"
        if new := set(os.listdir(folder)) - before:
            verdict = f"wrote {new}"
        yield number, verdict, took


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, 16 << 20))
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def refuse(event: str, given: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(given[0], str | bytes) or not given[2] & writing:
            return
        path = os.path.realpath(os.fsdecode(given[0]))
        if not path.startswith(tempfile.gettempdir()) and path != "/dev/null":
            raise AssertionError(f"{path} is opened to be written")

    sys.addaudithook(refuse)


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(FORMATS)))
@click.option("--count", default=2000)
@click.option("--seed", default=0)
def main(only: tuple[str, ...], count: int, seed: int) -> None:
    wrong = 0
    with tempfile.TemporaryDirectory() as made:
        tempfile.tempdir = made
        _limit()
        for name in only or FORMATS:
            counts, slowest = Counter[str](), 0.0
            folder = Path(made) / name
            folder.mkdir()
            for number, verdict, took in fuzz(name, folder, count, seed):
                slowest = max(slowest, took)
                counts[verdict if verdict in ("read", "refused") else "wrong"] += 1
                if verdict not in ("read", "refused"):
                    click.echo(f"{name} {number}: {verdict}")
            wrong += counts["wrong"]
            click.echo(
                f"{name}: {count:,} files, {counts['read']:,} read, {counts['refused']:,} refused, "
                f"{counts['wrong']} wrong; the slowest took {slowest:.2f} s"
            )
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
