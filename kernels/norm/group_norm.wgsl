// /// kernel
// doc = """
// Group normalisation: dst = (x - mean) / sqrt(variance + eps) * weight + bias, where mean and variance are
// taken over each group of channels of each image.
//
// All is computed in f32, from differences to the rounded mean. There is one pass if the elements
// of a group are contiguous and fit into registers. dst may be x."""
// source = "Wu and He 2018; instance normalisation: Ulyanov et al. 2016"
// bodies = ["norm_rows", "norm_apply"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(N, C, ...)" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x", alias = "x" }
// options.groups = { type = "int", default = 1, doc = "The number of groups, of C / groups channels each; C for instance normalisation." }
// options.eps = { type = "float", default = 1e-5, doc = "Added to the variance." }
// operations = "8 * x.size"
// ///
