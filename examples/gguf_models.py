"""Reads language models from GGUF files: the network that the metadata describe, the stored weights
and the tokenizer. Also writes GGUF files of random weights.

The package `gguf` reads and writes the files: pip install gguf. The optional package `tokenizers`
converts between text and tokens.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from decoder_families import FAMILIES, Array, Config, rope_factors, shapes_of

import pykernels as pk

# For each field of Config, its key in the metadata, without the name of the architecture in front.
FIELDS = {
    "layers": "block_count", "width": "embedding_length", "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv", "hidden": "feed_forward_length",
    "context": "context_length", "rope_base": "rope.freq_base", "head": "attention.key_length",
    "window": "attention.sliding_window", "experts": "expert_count", "used": "expert_used_count",
    "attention_cap": "attn_logit_softcapping", "final_cap": "final_logit_softcapping",
}  # fmt: skip
EPS = {"rms": "attention.layer_norm_rms_epsilon", "layer": "attention.layer_norm_epsilon"}
EXPERTS = "expert_feed_forward_length"  # if a file has this key, it replaces the key of `hidden`


class Blocks(NamedTuple):
    """A weight in quantised blocks: the rows of a matrix, or of several matrices, as bytes."""

    type: str
    shape: tuple[int, ...]
    data: Array

    def numpy(self) -> Array:
        """The dequantised numbers."""
        return pk.QTensor.from_bytes(self.data, self.shape, self.type).numpy()


class Model(Mapping[str, "Array | Blocks"]):
    """The weights of a file by name, mapped into memory."""

    def __init__(self, path: Path) -> None:
        reader = _gguf().GGUFReader(path)
        self._entries = {t.name: t for t in reader.tensors}
        self.metadata = {name: field.contents() for name, field in reader.fields.items()}
        self.config = config_of(self.metadata, len(self["token_embd.weight"].data))

    def __getitem__(self, name: str) -> Array | Blocks:
        entry = self._entries[name]
        kind, shape = entry.tensor_type.name, tuple(int(n) for n in reversed(entry.shape))
        if kind in ("F32", "F16", "F64"):
            return np.asarray(entry.data).reshape(shape)
        if kind == "BF16":
            words = np.ascontiguousarray(entry.data).view(np.uint16).astype(np.uint32) << 16
            return words.view(np.float32).reshape(shape)
        return Blocks(kind.lower(), shape, np.asarray(entry.data))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def config_of(metadata: Mapping[str, Any], vocabulary: int) -> Config:
    """The network that metadata describe; ValueError if its family is unknown here."""
    arch = metadata.get("general.architecture")
    family = next((name for name, row in FAMILIES.items() if row.arch == arch), None)
    if family is None:
        known = ", ".join(row.arch for row in FAMILIES.values())
        raise ValueError(f"the file's architecture must be one of {known} but is {arch!r}")
    row = FAMILIES[family]
    given = {n: metadata[f"{arch}.{k}"] for n, k in FIELDS.items() if f"{arch}.{k}" in metadata}
    given.setdefault("kv_heads", given["heads"])
    if f"{arch}.{EXPERTS}" in metadata:
        given["hidden"] = metadata[f"{arch}.{EXPERTS}"]
    return Config(
        family, vocabulary=vocabulary, eps=metadata[f"{arch}.{EPS[row.norm]}"], style=row.style,
        **given,
    )  # fmt: skip


def write(path: Path, config: Config, weights: Mapping[str, Array], kind: str = "q8_0") -> None:
    """Write weights as a GGUF file. Matrices are blocks of the type `kind` (floats for "f32" and
    "f16"); if their rows are not a multiple of 32, they are float32 in place of blocks."""
    package = _gguf()
    arch, row = config.row.arch, config.row
    writer = package.GGUFWriter(path, arch)
    for field, key in FIELDS.items():
        value = config.depth if field == "head" else getattr(config, field)
        if isinstance(value, float):
            writer.add_float32(f"{arch}.{key}", value)
        elif value:
            writer.add_uint32(f"{arch}.{key}", value)
    writer.add_float32(f"{arch}.{EPS[row.norm]}", config.eps)
    factors = rope_factors(config)
    own = dict(weights)
    if factors is not None:
        own["rope_freqs.weight"] = factors.astype(np.float32)
    for name, shape in shapes_of(config).items():
        if own[name].shape != shape:
            raise ValueError(f"{name} must have shape {shape} but has {own[name].shape}")
    for name, w in own.items():
        whole = w.ndim > 1 and kind != "f32"
        if whole and kind == "f16":
            writer.add_tensor(name, w.astype(np.float16))
        elif whole and w.shape[-1] % 32 == 0:
            q = pk.quantize(w.astype(np.float32), kind)
            data = np.frombuffer(q.tobytes(), np.uint8).reshape(*w.shape[:-1], -1)
            writer.add_tensor(name, data, raw_dtype=package.GGMLQuantizationType[kind.upper()])
        else:
            writer.add_tensor(name, w.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf() -> Any:
    try:
        return importlib.import_module("gguf")
    except ModuleNotFoundError:
        raise ImportError("GGUF files take the package gguf: pip install gguf") from None


# -- random blocks --------------------------------------------------------------------------------

# For each type, facts about a block: how many numbers and bytes it has, the offset of its scale (a
# half), and the magnitude of its numbers for a scale of 1.
_BLOCKS = {
    "q4_0": (32, 18, 0, 4.6), "q8_0": (32, 34, 0, 74.0), "q4_k": (256, 144, 0, 200.0),
    "q6_k": (256, 210, 208, 1366.0),
}  # fmt: skip


def random_blocks(
    shape: tuple[int, ...], kind: str, rng: np.random.Generator, size: float
) -> Blocks:
    """A matrix of random blocks, whose numbers have about the magnitude `size`."""
    block, nbytes, at, unit = _BLOCKS[kind]
    rows, count = shape[0], shape[-1] // block
    data = rng.integers(0, 256, (rows * count, nbytes), dtype=np.uint8)
    scale = np.float16(size / unit)
    data[:, at : at + 2] = np.array([scale]).view(np.uint8)
    if kind == "q4_k":  # this offset makes about half of the numbers negative
        data[:, 2:4] = np.array([7.5 * scale], np.float16).view(np.uint8)
    return Blocks(kind, shape, data.reshape(rows, -1))


def random_model(config: Config, mix: str, seed: int = 0) -> dict[str, Array | Blocks]:
    """Random weights of a network. Matrices are in blocks of one type; for "q4_k_m" they have
    the mix of q4_k and q6_k that such files have."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array | Blocks] = {}
    shapes = shapes_of(config) | {"output.weight": (config.vocabulary, config.width)}
    for name, shape in shapes.items():
        if len(shape) == 1:
            found[name] = (rng.standard_normal(shape) * 0.1 + 1).astype(np.float32)
            continue
        kind = mix
        if mix == "q4_k_m":
            kind = "q6_k" if name.startswith("output") or _more(config, name) else "q4_k"
        found[name] = random_blocks(shape, kind, rng, shape[-1] ** -0.5)
    return found


def _more(config: Config, name: str) -> bool:
    """True if a q4_k_m file stores this weight with more bits, by llama.cpp's use_more_bits."""
    if "attn_v" not in name and "ffn_down" not in name:
        return False
    i, eighth = int(name.split(".")[1]), config.layers // 8
    return i < eighth or i >= 7 * config.layers // 8 or (i - eighth) % 3 == 2


# -- text -----------------------------------------------------------------------------------------


class Text:
    """The tokenizer of a file's metadata, by the package `tokenizers`."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        package = importlib.import_module("tokenizers")
        self.first = metadata.get("tokenizer.ggml.bos_token_id")
        self.begins = metadata.get("tokenizer.ggml.add_bos_token", False)
        self.end = metadata.get("tokenizer.ggml.eos_token_id")
        self._tokenizer = _tokenizer(package, metadata)

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, after the model's token for the beginning of a text if it has
        one."""
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [self.first, *found] if self.begins and self.first is not None else found

    def text(self, tokens: list[int]) -> str:
        """The text of tokens."""
        found: str = self._tokenizer.decode(tokens)
        return found


def text_of(metadata: Mapping[str, Any]) -> Text | None:
    """The tokenizer; None if the file has no tokenizer, or if the package `tokenizers` is not
    installed."""
    try:
        importlib.import_module("tokenizers")
    except ModuleNotFoundError:
        return None
    kinds = "tokenizer.huggingface.json" in metadata, metadata.get("tokenizer.ggml.model")
    return Text(metadata) if kinds[0] or kinds[1] in ("gpt2", "llama") else None


def _tokenizer(package: Any, metadata: Mapping[str, Any]) -> Any:
    whole = metadata.get("tokenizer.huggingface.json")
    if whole is not None:
        return package.Tokenizer.from_str(whole)
    words: list[str] = metadata["tokenizer.ggml.tokens"]
    places = {word: i for i, word in enumerate(words)}
    models, pre, decoders = package.models, package.pre_tokenizers, package.decoders
    if metadata["tokenizer.ggml.model"] == "gpt2":
        merges = [tuple(m.split(" ", 1)) for m in metadata["tokenizer.ggml.merges"]]
        found = package.Tokenizer(models.BPE(places, merges))
        found.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
        found.decoder = decoders.ByteLevel()
    else:
        found = package.Tokenizer(
            models.BPE(places, _merges(words, metadata), unk_token=words[0], fuse_unk=True,
                       byte_fallback=True)
        )  # fmt: skip
        normal = package.normalizers
        found.normalizer = normal.Sequence([normal.Prepend("▁"), normal.Replace(" ", "▁")])
        found.decoder = decoders.Sequence([
            decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ])  # fmt: skip
    # Control tokens and user-defined tokens are never parts of words.
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    special = [w for w, kind in zip(words, kinds, strict=False) if kind in (3, 4)]
    found.add_special_tokens(special)
    return found


def _merges(words: list[str], metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pairs of pieces that together form a piece, sorted by the score of the formed piece
    (SentencePiece)."""
    scores = dict(zip(words, metadata["tokenizer.ggml.scores"], strict=True))
    found = [
        (scores[word], word[:n], word[n:])
        for word in words
        for n in range(1, len(word))
        if word[:n] in scores and word[n:] in scores
    ]
    return [(a, b) for _, a, b in sorted(found, key=lambda m: -m[0])]
