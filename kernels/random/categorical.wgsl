// /// kernel
// doc = """
// A draw for each row of logits: column i has the probability exp(logits[i] / temperature) / sum,
// where sum is over all columns.
//
// With top_p below 1 a column can be drawn only if the weights of the columns before it add up to
// less than top_p times the sum. If rows are in descending order, this is nucleus sampling. The
// result is the column, or its element of `tokens`; -1 for a row that is not a distribution (NaN,
// +inf, only -inf). Weights and sums are f32. Row r in C order takes two words of block r of
// Philox4x32-10: the first draws one of up to 256 pieces of the row, the second a column of that
// piece."""
// source = "Holtzman et al. 2020: The curious case of neural text degeneration (top_p)"
// bodies = ["categorical_sums", "categorical_rows"]
// inputs.logits = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., cols)" }
// inputs.tokens = { dtype = "*", dtypes = ["int32"], bind = "'u32'", optional = true, doc = "(..., cols): the result for each column; None means the column's number." }
// inputs.state = { dtype = "*", dtypes = ["uint32"], bind = "'u32'", optional = true, doc = "(6,): two words of the key, four of the counter." }
// outputs.dst = { dtype = "*", dtypes = ["int32"], bind = "'u32'", doc = "(...)" }
// params.temperature = { type = "f32", default = 1.0, doc = "Divides the logits; above 0." }
// params.top_p = { type = "f32", default = 1.0, doc = "The share of the sum, above 0; with 1 or more all columns can be drawn." }
// params.seed = { type = "bits", of = "int64", default = 0, doc = "The key, if there is no state." }
// bytes = "touched(logits, dst)"
// operations = "8 * logits.size"
// ///
