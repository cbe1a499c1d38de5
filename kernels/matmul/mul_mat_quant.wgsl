// /// kernel
// doc = """
// Product with quantised weights: dst[..., n, m] = act(scale * sum_k w[m, k] * b[..., n, k] + bias + residual).
//
// `low`, `scales` and `high` are the planes of the weights (M, K) of the type `quant`, as pk.QTensor
// has them. Sums are f32. Weights are what their blocks say, not rounded, and so are the numbers of
// b; but with float16 b on matrix units weights are rounded to float16, which `precision="fast"` allows
// of float32 b as well."""
// source = "ggml mul_mat (meaning)"
// bodies = ["gemv_quant", "gemv_quant_half", "gemv_quant_i8", "rows_i8", "gemm_quant", "gemm_mma_quant", "gemm_mma_quant_few", "splitk_reduce"]
// inputs.low = { dtype = "u32", doc = "(1, K / 32, parts, rows, vec)" }
// inputs.scales = { dtype = "u32", doc = "(1, K / block, words, rows / share)" }
// inputs.high = { dtype = "u32", optional = true, doc = "(1, K / 32, words, rows), of types that have it." }
// inputs.b = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., N, K)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "Added to the scaled sums; broadcast to dst." }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "Added as bias is." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., N, M)" }
// options.quant = { type = "str", default = "q4_0", doc = "The type of the weights by its name." }
// options.activation = { type = "Activation | None", doc = "Applied last; 'gelu' uses erf." }
// options.precision = { type = "Literal['fast'] | None", doc = "'fast' may round b to float16, and one row to 8 bits with a scale for each 32." }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of the sums." }
// operations = "2 * dst.size * b.shape[-1]"
// ///
