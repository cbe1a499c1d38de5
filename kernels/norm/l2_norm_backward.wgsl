// /// kernel
// doc = """
// Gradient of l2_norm over the last axis: dst = (dy - n * sum(dy * n)) / length, n = x / length.
//
// Where the length is below eps, dst = dy / eps. Computed in f32. dst may be dy."""
// source = "ggml l2_norm, torch.nn.functional.normalize (meaning)"
// bodies = ["norm_rows_backward", "norm_sums_rows", "norm_apply_backward"]
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(..., cols)" }
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy", alias = "dy" }
// options.eps = { type = "float", default = 1e-12, doc = "The same as in l2_norm." }
// axis = { moves = ["dy", "x"] }
// operations = "8 * x.size"
// ///
