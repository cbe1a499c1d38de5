// /// kernel
// doc = """
// Rows of length 1: dst = x / max(sqrt(sum(x^2)), eps) over the last axis, summed in f32.
//
// dst may be x."""
// source = "ggml l2_norm, torch.nn.functional.normalize (meaning)"
// bodies = ["norm_rows", "norm_apply"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(..., cols)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x", alias = "x" }
// options.eps = { type = "float", default = 1e-12, doc = "The smallest divisor, 0 or more: shorter rows are divided by eps." }
// axis = { moves = ["x"] }
// operations = "3 * x.size"
// ///
