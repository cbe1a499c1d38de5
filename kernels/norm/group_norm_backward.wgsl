// /// kernel
// doc = """
// The gradients of group_norm: dst is the gradient of x; dweight and dbias are the gradients of
// weight and bias, if these are given.
//
// With n the norm before weight and bias, and g = dy * weight, dst is (g - mean(g) - n * mean(g *
// n)) / sqrt(variance + eps), dweight is the sum of dy * n over a channel of all images, and dbias
// is the sum of dy. All is computed in f32. Sums are trees in a fixed order, so equal calls give
// equal bits. dst may be dy."""
// source = "Wu and He 2018"
// bodies = ["norm_sums_rows", "norm_apply_backward"]
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(N, C, ...)" }
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// outputs.dweight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// outputs.dbias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "dy", alias = "dy" }
// options.groups = { type = "int", default = 1, doc = "The number of groups, of C / groups channels each; C for instance normalisation." }
// options.eps = { type = "float", default = 1e-5, doc = "Added to the variance." }
// operations = "16 * x.size"
// ///
