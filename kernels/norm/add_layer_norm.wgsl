// /// kernel
// doc = """
// Layer normalisation of a sum over the last axis, and the sum: dst = layer_norm(x + residual).
//
// There is one pass if a row fits into registers. A transformer block begins with this operation.
// The sum is rounded to its dtype when it is written; the norm may be computed from the sum before
// or after this rounding. `summed` may be `residual`."""
// source = "Ba, Kiros and Hinton 2016; corrected two-pass sums: Chan, Golub and LeVeque 1983"
// bodies = ["norm_rows", "norm_apply"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(..., cols)" }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,)" }
// outputs.summed = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x", alias = "residual", doc = "x + residual, with the dtype of x." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x" }
// options.eps = { type = "float", default = 1e-5, doc = "Added to the variance." }
// operations = "9 * x.size"
// ///
