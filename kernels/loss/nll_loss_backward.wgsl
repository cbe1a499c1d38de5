// /// kernel
// doc = """
// Gradient of nll_loss by its input: -k * weight[class] at the class of each row, and 0 elsewhere.
//
// k is dy: of a row for reduction 'none', of the whole loss otherwise, and divided by `total` for
// 'mean'. The row of a class that does not count is 0. The other arguments are those of `nll_loss`."""
// bodies = ["cross_entropy_grad"]
// inputs.target = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", doc = "(...)" }
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "() or (...), of dst's dtype" }
// inputs.total = { dtype = "*", dtypes = ["float32"], bind = "'u32'", optional = true, doc = "(): given for the mean." }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(classes,), of dst's dtype." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., classes)" }
// options.ignore_index = { type = "int", default = -100, doc = "Rows of this class are ignored." }
// operations = "target.size"
// ///
