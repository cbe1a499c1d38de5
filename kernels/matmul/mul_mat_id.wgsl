// /// kernel
// doc = """
// Product of each row with the weights of the expert that it names: dst[t, s, m] = sum_k w[ids[t, s], m, k] * b[t, s, k].
//
// `w` are weights of floats (experts, M, K); or `low`, `scales` and `high` are the planes of quantised
// weights of the type `quant`, as pk.QTensor has them. b has one row for each element of ids, or for each
// t. Rows are sorted by expert on the device. Sums are f32; neither weights nor b are rounded. If an
// expert is outside [0, experts), its row of dst does not change, and IndexRangeError is raised once, at
// the next synchronisation."""
// source = "ggml mul_mat_id (meaning)"
// bodies = ["expert_tiles", "gemm_id", "gemm_id_float"]
// inputs.ids = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, doc = "(T, S)" }
// inputs.b = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(T, S, K) or (T, 1, K)" }
// inputs.w = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(experts, M, K)" }
// inputs.low = { dtype = "u32", optional = true, doc = "(experts, K / 32, parts, rows, vec)" }
// inputs.scales = { dtype = "u32", optional = true, doc = "(experts, K / block, words, rows / share)" }
// inputs.high = { dtype = "u32", optional = true, doc = "(experts, K / 32, words, rows), for types with this plane." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], skips = true, bind = "'u32'", doc = "(T, S, M)" }
// options.quant = { type = "str | None", doc = "The name of the type of quantised weights." }
// operations = "2 * dst.size * b.shape[-1]"
// ///
