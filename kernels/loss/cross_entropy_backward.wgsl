// /// kernel
// doc = """
// The gradient of cross_entropy's logits: dst = k * (softmax(x) * sum(t) - t), computed in f32.
//
// t are the targets of a row with weights and smoothing. k is dy of the row for reduction 'none', else
// dy of the whole loss, divided by `total` for 'mean'. The gradient of an ignored row is 0. `stats` and
// `total` are outputs of `cross_entropy`; the other arguments are the same as in
// `cross_entropy`."""
// bodies = ["cross_entropy_grad"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., classes)" }
// inputs.target = { dtype = "*", dtypes = ["int32", "int64", "float32", "float16"], bind = "'u32'", doc = "(...), or (..., classes) of x's dtype" }
// inputs.stats = { dtype = "*", dtypes = ["float32"], bind = "'u32'", doc = "(..., 2)" }
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "() or (...), of x's dtype" }
// inputs.total = { dtype = "*", dtypes = ["float32"], bind = "'u32'", optional = true, doc = "(): needed for the mean." }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(classes,), of x's dtype." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", like = "x", alias = "x", doc = "(..., classes), of x's dtype" }
// options.ignore_index = { type = "int", default = -100, doc = "Rows of this class are ignored." }
// options.label_smoothing = { type = "float", default = 0.0, doc = "The share of a target that all classes get, from 0 to 1." }
// operations = "6 * x.size"
// ///
