// /// kernel
// doc = """
// Batch normalisation with known statistics: dst = (x - mean) / sqrt(variance + eps) * weight + bias, where
// mean, variance, weight and bias have an element for each channel.
//
// All is computed in f32. dst may be x."""
// source = "Ioffe and Szegedy 2015"
// bodies = ["norm_apply"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(N, C, ...)" }
// inputs."mean variance" = { dtype = "f32", doc = "(C,)" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x", alias = "x" }
// options.eps = { type = "float", default = 1e-5, doc = "Added to the variance." }
// operations = "4 * x.size"
// ///
