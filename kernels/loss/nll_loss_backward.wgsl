// /// kernel
// doc = """
// The gradient of nll_loss's input: -k * weight[class] at the class of each row, and 0 elsewhere.
//
// For reduction 'none', k is the row's element of dy. For 'sum', k is the only element of dy, and for
// 'mean' it is this element divided by `total`. The gradient of an ignored row is 0. The other arguments are the same as in `nll_loss`."""
// bodies = ["cross_entropy_grad"]
// inputs.target = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", doc = "(...)" }
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "() or (...), of dst's dtype" }
// inputs.total = { dtype = "*", dtypes = ["float32"], bind = "'u32'", optional = true, doc = "(): needed for the mean." }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(classes,), of dst's dtype." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., classes)" }
// options.ignore_index = { type = "int", default = -100, doc = "Rows of this class are ignored." }
// operations = "target.size"
// ///
