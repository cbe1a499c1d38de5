// /// kernel
// doc = """
// The gradients of rms_norm: dst is the gradient of x; dweight is the gradient of weight, if weight
// is given.
//
// With n the norm before the weight, and g = dy * weight, dst is (g - n * mean(g * n)) /
// sqrt(mean(x^2) + eps) + ds, and dweight is the sum of dy * n over all rows. x is the tensor that
// was normalised; for add_rms_norm it is the sum. All is computed in f32, in one pass if a row fits
// into registers. Sums over rows are trees in a fixed order, so equal calls give equal bits. dst
// may be dy."""
// source = "Zhang and Sennrich 2019"
// bodies = ["norm_rows_backward", "norm_sums_rows", "norm_sums_columns", "norm_apply_backward"]
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(..., cols)" }
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,), as in rms_norm." }
// inputs.ds = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy", optional = true, doc = "Another gradient of x, with the dtype of dy, which is added." }
// outputs.dweight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy", alias = "dy" }
// options.eps = { type = "float", default = 1e-6, doc = "The same as in rms_norm." }
// operations = "10 * x.size"
// ///
