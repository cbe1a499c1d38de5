// /// kernel
// doc = """
// Negative log likelihood of the class of each row: -weight[class] * x[..., class], computed in f32.
//
// It is 0 for a row whose class is `ignore_index`. Any other class outside of [0, classes) counts
// as `ignore_index`, and raises IndexRangeError once, at the next synchronisation. 'mean' divides
// by the sum of weight[class] over the rows that count; without rows it is NaN."""
// source = "torch.nn.functional.nll_loss (meaning)"
// bodies = ["nll_rows", "loss_total", "cpy", "cpy_block", "cpy_bytes", "cpy_rows", "cpy_cast", "cpy_tile"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., classes): logarithms of probabilities" }
// inputs.target = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", doc = "(...)" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(classes,), of x's dtype." }
// outputs.total = { dtype = "*", dtypes = ["float32"], bind = "'u32'", optional = true, doc = "(): the divisor of 'mean'." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(), or (...) for reduction 'none'" }
// options.ignore_index = { type = "int", default = -100, doc = "Rows of this class are ignored." }
// options.reduction = { type = "Literal['none', 'mean', 'sum']", default = "mean", doc = "How the losses of all rows are combined." }
// bytes = "touched(target, weight, dst) + target.size * x.dtype.itemsize"
// operations = "target.size"
// ///
