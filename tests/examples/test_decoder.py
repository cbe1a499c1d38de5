"""examples/decoder.py: against the network in numpy, steps against one pass, checkpoints, draws."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import checkpoints
import decoder_families as families
import decoder_numpy
import gguf_models
from checkpoints import SHAPES, random_weights
from decoder import Decoder, Sampling

Array = np.ndarray[Any, Any]
FAMILIES = ("tiny-gpt2", "tiny-llama")
PROMPT = [3, 1, 4, 1, 5]
STEPS = 6
# As often as one rounding of each result, as decoder_numpy makes them, the device may round: sums
# of products, of norms and of attention are more roundings than one.
ROUNDINGS = 4.0


def distance(a: Array, b: Array) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_prefill_and_steps_are_the_network(dev: pk.Device, name: str, dtype: Any) -> None:
    """The prompt in two pieces, then steps of one program at positions that it counts itself."""
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")  # gives numpy the name
    config = SHAPES[name]
    weights = random_weights(config, seed=1)
    stored = {n: w.astype(dtype).astype(np.float64) for n, w in weights.items()}
    model = Decoder(dev, config, weights, len(PROMPT) + STEPS, dtype)
    first = model.prefill(PROMPT[:2]).numpy()
    found = [first, model.prefill(PROMPT[2:]).numpy()]
    tokens = list(PROMPT)
    for n, token in enumerate(model.generate(STEPS)):
        tokens.append(token)
        if n + 1 < STEPS:  # the step of the next token was launched
            found.append(model.logits.numpy())
    rows = [1, *range(len(PROMPT) - 1, len(tokens) - 1)]
    want = decoder_numpy.logits(config, stored, np.array(tokens[:-1]))[rows]
    once = decoder_numpy.logits(config, stored, np.array(tokens[:-1]), np.dtype(dtype).type)[rows]
    for got, exact, rounded in zip(found, want, once, strict=True):
        assert distance(got[0].astype(np.float64), exact) < ROUNDINGS * distance(rounded, exact)
    # Greedy: what comes next has the largest logit.
    assert tokens[len(PROMPT) :] == [int(row[0].argmax()) for row in found[1:]]
    # One pass over all tokens.
    model.length = 0
    whole = model.prefill(tokens[:-1]).numpy()[0].astype(np.float64)
    assert distance(whole, want[-1]) < ROUNDINGS * distance(once[-1], want[-1])


@pytest.mark.parametrize("name", FAMILIES)
def test_reference_attends_to_what_came_before_alone(name: str) -> None:
    """Of the float64 network: later tokens change nothing, earlier ones do."""
    config, tokens = SHAPES[name], np.array(PROMPT)
    weights = random_weights(config, seed=2)
    whole = decoder_numpy.logits(config, weights, tokens)
    for n in range(1, len(tokens)):
        np.testing.assert_allclose(decoder_numpy.logits(config, weights, tokens[:n]), whole[:n])
    other = decoder_numpy.logits(config, weights, np.array([7, *PROMPT[1:]]))
    assert (np.abs(other - whole).max(-1) > 1e-3).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", FAMILIES)
def test_checkpoints_round_trip(dev: pk.Device, name: str, tmp_path: Path) -> None:
    config = SHAPES[name]
    weights = random_weights(config, seed=3)
    if config.family == "llama":
        weights["lm_head.weight"] = random_weights(config, seed=4)["model.embed_tokens.weight"]
    half = len(weights) // 2
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    items = [(f"transformer.{n}" if name == "tiny-gpt2" else n, w) for n, w in weights.items()]
    checkpoints.write(files[0], dict(items[:half]))
    checkpoints.write(files[1], dict(items[half:]))
    found = checkpoints.read(files, config)
    assert list(found) == list(weights)
    assert all((found[n] == w).all() and found[n].dtype == w.dtype for n, w in weights.items())
    ours, theirs = (Decoder(dev, config, w, 8) for w in (weights, found))
    got = ours.prefill(PROMPT).numpy()
    assert (got == theirs.prefill(PROMPT).numpy()).all()
    want = decoder_numpy.logits(config, weights, np.array(PROMPT))[-1]
    assert distance(got[0], want) < 1e-5
    with pytest.raises(ValueError, match="no weight"):
        checkpoints.read(files[:1], config)
    with pytest.raises(ValueError, match="must have shape"):
        checkpoints.read(files, config._replace(vocabulary=96))
    files[0].write_bytes(b"\x08" + bytes(7) + b"not JSON")
    with pytest.raises(ValueError, match="is no safetensors file"):
        checkpoints.read(files, config)


def test_checkpoints_read_what_others_write(tmp_path: Path) -> None:
    """bfloat16, which numpy has not, and entries that are no weights."""
    bits = np.array([0x3F80, 0xC000, 0x3E80], np.uint16)
    mask = np.ones(4, np.uint8)
    header = {
        "__metadata__": {"format": "pt"},
        "mask": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
        "w": {"dtype": "BF16", "shape": [3], "data_offsets": [4, 10]},
    }
    text = json.dumps(header).encode()
    file = tmp_path / "x.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + mask.tobytes() + bits.tobytes())
    found = checkpoints._read(file)
    assert list(found) == ["w"] and found["w"].tolist() == [1.0, -2.0, 0.25]


def test_llama_shapes_are_those_of_its_checkpoint() -> None:
    """1,235,814,400 parameters, and long waves 32 times as long."""
    sizes = [np.prod(s) for s in checkpoints.shapes_of(SHAPES["llama-3.2-1b"]).values()]
    assert sum(sizes) == 1_235_814_400
    assert sum(np.prod(s) for s in checkpoints.shapes_of(SHAPES["gpt2"]).values()) == 124_439_808
    factors = checkpoints.rope_factors(SHAPES["llama-3.2-1b"])
    assert factors is not None and factors[0] == 1.0 and factors[-1] == 32.0
    assert (np.diff(factors) >= 0).all() and len(factors) == 32


@pytest.mark.gpu
def test_steps_draw_as_the_probabilities_say(dev: pk.Device) -> None:
    """A step taken again and again at one position: each draw is among the likeliest three, and
    about as often as these three's probabilities say. A seed gives the same draws."""
    config = SHAPES["tiny-gpt2"]
    weights, drawn = random_weights(config, seed=5), []
    for _ in range(2):
        model = Decoder(dev, config, weights, 8, sampling=Sampling(1.5, 3, 0.999), seed=6)
        model.prefill(PROMPT)
        tokens = []
        for _ in range(150):
            model.token[:], model.counts[:] = np.int32([2]), np.int32([5, 6])
            model.step()
            tokens.append(model.token.item())
        drawn.append(tokens)
    assert drawn[0] == drawn[1]
    x = decoder_numpy.logits(config, weights, np.array([*PROMPT, 2]))[-1]
    best = np.argsort(-x)[:3]
    p = np.exp(x[best] / 1.5) / np.exp(x[best] / 1.5).sum()
    counts = np.array([drawn[0].count(int(t)) for t in best])
    assert counts.sum() == 150
    assert (abs(counts - 150 * p) < 4 * np.sqrt(150 * p * (1 - p))).all(), (counts, 150 * p)


@pytest.mark.gpu
def test_decoder_rejects(dev: pk.Device) -> None:
    config = SHAPES["tiny-gpt2"]
    weights = random_weights(config)
    with pytest.raises(ValueError, match="room must be up to 64 tokens"):
        Decoder(dev, config, weights, 65)
    model = Decoder(dev, config, weights, 6)
    with pytest.raises(ValueError, match="room for 6 tokens, not 7"):
        model.prefill([1] * 7)
    model.prefill(PROMPT)
    with pytest.raises(ValueError, match="the caches have room for 6 tokens"):
        list(model.generate(3))


# -- GGUF files -----------------------------------------------------------------------------------

SMALL = [name for name in SHAPES if name.startswith("small-")]
CACHES = {"small-llama": "q8_0", "small-gemma2": "q4_0", "small-mistral": "q8_0"}


@pytest.mark.gpu
@pytest.mark.parametrize("name", SMALL)
def test_gguf_files_of_each_family(dev: pk.Device, name: str, tmp_path: Path) -> None:
    """Written and read again: the network, and against numpy a prompt and steps, with caches in
    blocks too."""
    pytest.importorskip("gguf")
    config, path = SHAPES[name], tmp_path / "model.gguf"
    kind = "q4_0" if name == "small-qwen2" else "q8_0"
    gguf_models.write(path, config, families.random_weights(config, seed=7), kind)
    model = gguf_models.Model(path)
    told = config._replace(rope_factor=1.0, trained=8192, head=config.depth)
    assert model.config._replace(eps=config.eps, rope_base=config.rope_base) == told._replace(
        attention_cap=model.config.attention_cap, final_cap=model.config.final_cap
    )
    numbers = {n: w.numpy() if hasattr(w, "type") else w for n, w in model.items()}
    cache = CACHES.get(name)
    decoder = Decoder(dev, model.config, model, len(PROMPT) + STEPS, cache=cache)
    found = [decoder.prefill(PROMPT).numpy()]
    tokens = list(PROMPT)
    for n, token in enumerate(decoder.generate(STEPS)):
        tokens.append(token)
        if n + 1 < STEPS:  # the step of the next token was launched
            found.append(decoder.logits.numpy())
    want = decoder_numpy.logits(model.config, numbers, np.array(tokens[:-1]))[len(PROMPT) - 1 :]
    allowed = {None: 2e-6, "q8_0": 0.03, "q4_0": 0.4}[cache]
    for got, exact in zip(found, want, strict=True):
        assert distance(got[0].astype(np.float64), exact) < allowed


def test_gguf_files_of_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"architecture must be one of .* but is 'bert'"):
        gguf_models.config_of({"general.architecture": "bert"}, 10)


def test_tokenizers_of_gguf_files() -> None:
    """Bytes merged by rank, and pieces by score; texts come back."""
    pytest.importorskip("tokenizers")
    plain = [chr(c) for c in range(33, 127)] + ["Ġ"]
    words = [*plain, "he", "ll", "hell", "hello", "Ġhe", "<s>"]
    merges = ["h e", "l l", "he ll", "hell o", "Ġ he"]
    text = gguf_models.Text({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": words.index("<s>"),
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.token_type": [1] * (len(words) - 1) + [3],
    })  # fmt: skip
    found = text.tokens("hello he")
    assert [words[t] for t in found] == ["<s>", "hello", "Ġhe"]
    assert text.text(found) == "hello he"
    pieces = ["<unk>", "<s>", *[f"<0x{b:02X}>" for b in range(256)], "▁", "a", "b", "ab", "▁ab"]
    scores = [0.0] * (len(pieces) - 2) + [-2.0, -1.0]
    text = gguf_models.Text({
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": [2, 3, *[6] * 256, 1, 1, 1, 1, 1],
    })  # fmt: skip
    found = text.tokens("ab ab!")
    assert [pieces[t] for t in found] == ["▁ab", "▁ab", "<0x21>"]
    assert text.text(found) == "ab ab!"


# Dispatches of a layer of a step. They may only become fewer.
DISPATCHES = {
    "small-llama": 7, "small-mistral": 7, "small-qwen2": 7, "small-qwen3": 9, "small-gpt2": 9,
    "small-gemma2": 11, "small-mixtral": 13, "small-qwen3moe": 15,
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["float32", "float16", "q8_0"])
@pytest.mark.parametrize("name", DISPATCHES)
def test_a_layer_takes_few_dispatches(dev: pk.Device, name: str, kind: Any) -> None:
    """The difference of two depths: rms_norm and what gates a product cost none."""
    if kind == "float16" and "shader-f16" not in dev.features:
        pytest.skip("the device has no shader-f16: float16 is converted around each call")
    counts = []
    for layers in (2, 4):
        config = SHAPES[name]._replace(layers=layers)
        weights: dict[str, Any] = families.random_weights(config)
        if kind == "q8_0":
            weights = {n: _blocks(w) if w.ndim > 1 else w for n, w in weights.items()}
        cache, dtype = (kind, "float32") if kind == "q8_0" else (None, kind)
        counts.append(len(Decoder(dev, config, weights, 8, dtype, cache=cache).step))
    assert (counts[1] - counts[0]) / 2 <= DISPATCHES[name], counts


def _blocks(w: Array) -> gguf_models.Blocks:
    q = pk.quantize(w, "q8_0")
    data = np.frombuffer(q.tobytes(), np.uint8).reshape(*w.shape[:-1], -1)
    return gguf_models.Blocks("q8_0", w.shape, data)
