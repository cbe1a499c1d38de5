// /// kernel
// doc = """
// Root mean square normalisation over the last axis: dst = x / sqrt(mean(x^2) + eps) * weight.
//
// The mean of the squares is computed in f32. dst may be x."""
// source = "Zhang and Sennrich 2019"
// bodies = ["norm_rows", "norm_apply"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(..., cols)" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x", alias = "x" }
// options.eps = { type = "float", default = 1e-6, doc = "Added to the mean of the squares." }
// operations = "4 * x.size"
// ///
