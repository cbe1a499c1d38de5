// /// kernel
// doc = """
// Cross entropy of the logits of each row and its target, summed in f32: -sum_c t_c log(softmax(x)_c).
//
// Targets are classes, int32 or int64, of the shape (...), or weights of all classes, in x's dtype,
// of the shape (..., classes): t_c = weight[c] * ((1 - label_smoothing) * target_c +
// label_smoothing / classes), where target_c is 1 for the class and 0 for others, or the given
// weight. A row whose class is `ignore_index` has the loss 0. Any other class outside of [0,
// classes) counts as `ignore_index`, and raises IndexRangeError once, at the next synchronisation.
// The loss of a row is NaN if a logit is NaN or +inf, or if all are -inf. 'mean' divides by the sum
// of weight[class] over the rows that count, or by the number of rows if targets are weights;
// without rows it is NaN."""
// source = "torch.nn.functional.cross_entropy (meaning); Milakov and Gimelshein 2018 (online form)"
// bodies = ["cross_entropy_rows", "cross_entropy_probs", "cross_entropy_combine", "loss_total", "cpy", "cpy_block", "cpy_bytes", "cpy_rows", "cpy_cast", "cpy_tile"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., classes)" }
// inputs.target = { dtype = "*", dtypes = ["int32", "int64", "float32", "float16"], bind = "'u32'", doc = "classes of the shape (...), or weights of the shape (..., classes) and of x's dtype" }
// inputs.weight = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(classes,), of x's dtype." }
// outputs.stats = { dtype = "*", dtypes = ["float32"], bind = "'u32'", optional = true, doc = "(..., 2): for the gradient, the largest logit of each row, and sum_c t_c / sum_c exp(x_c - largest)." }
// outputs.total = { dtype = "*", dtypes = ["float32"], bind = "'u32'", optional = true, doc = "(): the divisor of 'mean'." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(), or (...) for reduction 'none'" }
// options.ignore_index = { type = "int", default = -100, doc = "Rows of this class are ignored." }
// options.reduction = { type = "Literal['none', 'mean', 'sum']", default = "mean", doc = "How the losses of all rows are combined." }
// options.label_smoothing = { type = "float", default = 0.0, doc = "The share of a target that all classes get, from 0 to 1." }
// operations = "6 * x.size"
// ///
