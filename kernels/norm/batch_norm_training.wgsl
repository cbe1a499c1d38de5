// /// kernel
// doc = """
// Batch normalisation: dst = (x - mean) / sqrt(variance + eps) * weight + bias, where mean and variance are of
// one channel of all images.
//
// running_mean becomes (1 - momentum) * running_mean + momentum * mean. running_variance is updated in the
// same way, with the variance divided by one less than the number of elements. `saved` holds the
// mean, its rounding error, and the sum of squared differences from the mean; it is an argument of
// batch_norm_backward. All is computed in f32, from differences to a rounded mean. dst may be x. A
// channel must have two or more elements."""
// source = "Ioffe and Szegedy 2015; moments: Chan, Golub and LeVeque 1979"
// bodies = ["norm_running", "norm_apply"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", doc = "(N, C, ...)" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(C,)" }
// outputs.running_mean = { dtype = "f32", in_place = true, optional = true, doc = "(C,)" }
// outputs.running_variance = { dtype = "f32", in_place = true, optional = true, doc = "(C,); it must be given together with running_mean." }
// outputs.saved = { dtype = "f32", optional = true, doc = "(3, C)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], same = "T", bind = "'u32'", like = "x", alias = "x" }
// options.momentum = { type = "float", default = 0.1, doc = "The weight of this batch in the running statistics." }
// options.eps = { type = "float", default = 1e-5, doc = "Added to the variance." }
// bytes = "touched(x, weight, bias, saved, dst) + 2 * touched(running_mean, running_variance)"
// operations = "8 * x.size"
// ///
