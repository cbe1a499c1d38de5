// /// kernel
// doc = """
// Product of each row with the weights of the expert that it names: dst[t, s, m] = act(sum_k w[ids[t, s], m, k] * b[t, s, k] + bias[ids[t, s], m] + residual[t, s, m]).
//
// `w` are weights of floats (experts, M, K); or `low`, `scales` and `high` are the planes of quantised
// weights of the type `quant`, as pk.QTensor has them. b has one row for each element of ids, or for each
// t. With `gated`, the first half of the M columns are gates, and dst (T, S, M / 2) is act(gates) times
// the second half. Many rows are sorted by expert on the device first; for few rows, the body that
// multiplies a row reads the row's expert itself. Sums are f32, and neither weights nor b are
// rounded, with one exception: for few rows of float16 b, sums of eight products may be float16. If
// an expert is outside [0, experts), its row of dst does not change, and IndexRangeError is raised
// once, at the next synchronisation."""
// source = "ggml mul_mat_id (meaning); Shazeer 2020 (GLU variants)"
// bodies = ["gemv_id", "gemv_id_quant", "gemv_id_quant_half", "expert_tiles", "gemm_id", "gemm_id_float"]
// inputs.ids = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, doc = "(T, S)" }
// inputs.b = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(T, S, K) or (T, 1, K)" }
// inputs.w = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(experts, M, K)" }
// inputs.low = { dtype = "u32", optional = true, doc = "(experts, K / 32, parts, rows, vec)" }
// inputs.scales = { dtype = "u32", optional = true, doc = "(experts, K / block, words, rows / share)" }
// inputs.high = { dtype = "u32", optional = true, doc = "(experts, K / 32, words, rows), for types with this plane." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(experts, M), or a shape that broadcasts to it" }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "Broadcast to dst; not with `gated`" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], skips = true, bind = "'u32'", doc = "(T, S, M), or (T, S, M / 2) for a gated product" }
// options.quant = { type = "str | None", doc = "The name of the type of quantised weights." }
// options.activation = { type = "Activation | None", doc = "Applied to the sums with bias and residual; 'gelu' uses erf." }
// options.gated = { type = "bool", default = false, doc = "True: the activation of the first half of the columns, times the second half." }
// bytes = "touched(ids, b, bias, residual, dst) + touched(w, low, scales, high) * min(ids.size, low.shape[0] if low else w.shape[0] if w else 1) // max(low.shape[0] if low else w.shape[0] if w else 1, 1)"
// operations = "2 * dst.size * b.shape[-1] * (2 if gated else 1)"
// ///
