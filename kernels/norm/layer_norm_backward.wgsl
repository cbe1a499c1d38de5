// /// kernel
// doc = """
// Gradients of layer_norm: dst of x, dweight and dbias of weight and bias, where they are given.
//
// With n the norm before weight and bias, and g = dy * weight, dst is (g - mean(g) - n * mean(g *
// n)) / sqrt(variance + eps) + ds, dweight the sum of dy * n over all rows, and dbias the sum of
// dy. x is the normalised tensor, for a sum the sum. Computed in f32, in one pass if registers hold
// a row; sums over rows are made by trees in a fixed order: the same call gives the same bits. dst
// may be dy."""
// source = "Ba, Kiros and Hinton 2016"
// bodies = ["norm_rows_backward", "norm_sums_rows", "norm_sums_columns", "norm_apply_backward"]
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(..., cols)" }
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,), as in layer_norm." }
// inputs.ds = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy", optional = true, doc = "Another gradient by x, which is added; of the dtype of dy." }
// outputs.dweight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,)" }
// outputs.dbias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(cols,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy", alias = "dy" }
// options.eps = { type = "float", default = 1e-5, doc = "As in layer_norm." }
// operations = "16 * x.size"
// ///
