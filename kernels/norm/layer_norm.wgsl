// /// kernel
// doc = """
// Layer normalisation over the last axis: dst = (x - mean) / sqrt(variance + eps) * weight + bias.
//
// The variance is divided by the number of elements. Mean and variance are computed in f32 from differences
// to the rounded mean, so a mean that is large compared with the deviation costs no accuracy. dst may be
// x."""
// source = "Ba, Kiros and Hinton 2016; corrected two-pass sums: Chan, Golub and LeVeque 1983"
// bodies = ["norm_rows", "norm_apply"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(..., cols)" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x", alias = "x" }
// options.eps = { type = "float", default = 1e-5, doc = "Added to the variance." }
// operations = "8 * x.size"
// ///
