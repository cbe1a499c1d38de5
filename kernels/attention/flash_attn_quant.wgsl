// /// kernel
// doc = """
// `flash_attn` with keys and values in blocks of the type `quant`, as planes of `pack_blocks`.
//
// For few query rows, the blocks are read directly. With a mask, with more rows or with heads more
// than 256 deep, keys and values are dequantised to scratch memory first. If matrix units compute
// the products (q is float16), the numbers are dequantised to float16, which rounds them once more;
// otherwise they are dequantised to float32, which is exact. Everything else is as in
// flash_attn."""
// source = "ggml's flash_attn_ext with quantised K and V"
// bodies = ["attention_decode_quant", "dequantize", "attention_combine", "attention_combine_tiles", "attention_tile", "attention_mma", "flash_attn", "pack_qk"]
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(B, H, S, D), D a multiple of 32" }
// inputs.k_low = { dtype = "u32", doc = "(B * Hkv, D / 32, parts, rows, 4), or (B, Hkv, ...)" }
// inputs.k_scales = { dtype = "u32", doc = "(B * Hkv, D / 32, 1, rows / 2), or (B, Hkv, ...)" }
// inputs.v_low = { dtype = "u32", doc = "Likewise, of values" }
// inputs.v_scales = { dtype = "u32", doc = "Likewise, of values" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, doc = "Added to the logits, or True where a key may be seen; broadcasts to (B, H, S, T)." }
// inputs.sinks = { dtype = "f32", optional = true, doc = "(H,): one more logit per head, without a value." }
// inputs.lengths = { dtype = "i32", optional = true, readonly = true, doc = "(B,): the number of keys of each batch that count; it is clamped to [0, T] and read on the device." }
// outputs.lse = { dtype = "f32", optional = true, doc = "(B, H, S): the logarithm of the sum of exp(logit), including the sink." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, H, S, Dv)" }
// options.quant = { type = "str", default = "q8_0", doc = "The name of the type of keys and values." }
// options.keys = { type = "int", default = 0, doc = "T, the number of keys; the planes may have more rows." }
// options.scale = { type = "float | None", doc = "Factor of q k^T; None is 1 / sqrt(D)." }
// options.causal = { type = "bool | Literal['top-left', 'bottom-right']", default = false, doc = "With True or 'bottom-right', query i sees the keys up to i + T - S; with 'top-left', the keys up to i (torch)." }
// options.window = { type = "tuple[int | None, int | None] | None", doc = "(left, right): the numbers of keys that count before and after p = i + T - S; None is no limit." }
// options.max_bias = { type = "float", default = 0.0, doc = "For ALiBi, which multiplies the mask by a slope for each head; 8 is usual, 0 is no ALiBi." }
// options.softcap = { type = "float", default = 0.0, doc = "The bound of the scaled scores; 0 is no bound." }
// bytes = "touched(q, mask, sinks, lengths, lse, dst) + touched(k_low, k_scales, v_low, v_scales) * seen_keys(q.shape[2], keys, causal, window) // max(keys, 1)"
// operations = "2 * (q.size + dst.size) // max(q.shape[2], 1) * seen_pairs(q.shape[2], keys, causal, window)"
// ///
