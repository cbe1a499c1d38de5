// /// kernel
// doc = """
// Product with quantised weights: dst[..., n, m] = act(scale * sum_k w[m, k] * b[..., n, k] + bias + residual).
//
// `low`, `scales` and `high` are the planes of the weights (M, K) of the type `quant`, as pk.QTensor
// has them. Sums are f32, and neither weights nor b are rounded, with two exceptions. For up to eight
// rows of float16 b, sums of eight products may be float16. Matrix units round the weights to float16;
// they are used for float16 b, and with `precision="fast"` for float32 b, which is then rounded too."""
// source = "ggml mul_mat (meaning)"
// bodies = ["gemv_quant", "gemv_quant_half", "gemv_quant_i8", "rows_i8", "gemm_quant", "gemm_mma_quant", "gemm_mma_quant_few", "splitk_reduce"]
// inputs.low = { dtype = "u32", doc = "(1, K / 32, parts, rows, vec)" }
// inputs.scales = { dtype = "u32", doc = "(1, K / block, words, rows / share)" }
// inputs.high = { dtype = "u32", optional = true, doc = "(1, K / 32, words, rows), for types with this plane." }
// inputs.b = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., N, K)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "Added to the scaled sums; broadcast to dst." }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "A second summand, with the same rules as bias." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., N, M)" }
// options.quant = { type = "str", default = "q4_0", doc = "The name of the type of the weights." }
// options.activation = { type = "Activation | None", doc = "Applied last; 'gelu' uses erf." }
// options.precision = { type = "Literal['fast'] | None", doc = "'fast' may round b to float16; a single row may be rounded to 8 bits, with a scale for each 32 numbers." }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of the sums." }
// operations = "2 * dst.size * b.shape[-1]"
// ///
