// /// kernel
// doc = """
// Gradients of flash_attn: dq, dk and dv of sum(do * flash_attn(q, k, v, ...)), summed in f32.
//
// Give the arguments of the forward call, its result `o` and its `lse` (which includes the sinks). The
// weights are computed again from q, k and lse, for a bounded window of queries and keys at a time:
// memory grows with S and T, not with their product. Equal calls give equal bits, because no floats
// are added by atomics. A query that sees no key has a gradient of 0 and adds 0 to other gradients,
// even if its row of `do` contains NaN. The same holds for a key that no query sees. Gradients of
// mask and sinks are not computed."""
// source = "Dao et al. 2022, FlashAttention (weights from lse, delta = sum of do * o)"
// when = ["False"]
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(B, H, S, D)" }
// inputs.k = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(B, Hkv, T, D): H is a multiple of Hkv." }
// inputs.v = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(B, Hkv, T, Dv)" }
// inputs.o = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(B, H, S, Dv), of the forward call." }
// inputs.lse = { dtype = "f32", doc = "(B, H, S), of the forward call." }
// inputs.do = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", like = "o" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, doc = "Broadcast to (B, H, S, T): added to the scores, or True where a key may be seen." }
// inputs.sinks = { dtype = "f32", optional = true, doc = "(H,): as in the forward call; lse includes their effect." }
// outputs.dq = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", like = "q" }
// outputs.dk = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", like = "k" }
// outputs.dv = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", like = "v" }
// options.scale = { type = "float | None", doc = "Factor of q.k; None is 1 / sqrt(D)." }
// options.causal = { type = "bool | Literal['top-left', 'bottom-right']", default = false, doc = "With True, the last query sees the last key; with 'top-left', query i sees the keys 0 to i." }
// options.window = { type = "tuple[int | None, int | None] | None", doc = "(left, right): query i sees the keys from i + T - S - left to i + T - S + right; None is no limit." }
// options.max_bias = { type = "float", default = 0.0, doc = "For ALiBi, whose slopes multiply the mask; 0 is no ALiBi." }
// options.softcap = { type = "float", default = 0.0, doc = "Scores become softcap * tanh(score / softcap); 0 is no cap." }
// bytes = "touched(q, o, lse, do, mask, sinks, dq, dk, dv) + touched(k, v) * seen_keys(q.shape[2], k.shape[2], causal, window) // max(k.shape[2], 1)"
// operations = "(6 * q.size + 4 * o.size) // max(q.shape[2], 1) * seen_pairs(q.shape[2], k.shape[2], causal, window)"
// grid = "0"
// ///

// This kernel has no text of its own: a call runs other bodies in the order of the plan.
