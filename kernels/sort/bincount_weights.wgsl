// /// kernel
// doc = """
// The sum of weights for each number: dst[b] is the sum of weights[i] over all i with x[i] = b.
//
// Sums are f32, as trees of a fixed shape over the sorted x, so two runs give the same bits. An
// element outside of [0, length) is left out and raises IndexRangeError at the next
// synchronisation."""
// source = "numpy.bincount (meaning)"
// operations = "x.size"
// bodies = ["bincount_sums", "scatter_keys", "sort_rows", "sort_merge", "sort_count", "sort_scatter", "scan_rows", "scan_totals", "scan_pieces", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_tile"]
// inputs.x = { dtype = "*", dtypes = ["int32", "uint32"], bind = "'u32'", doc = "(n,)" }
// inputs.weights = { dtype = "f32", like = "x", doc = "(n,)" }
// outputs.dst = { dtype = "f32", doc = "(length,)" }
// bytes = "touched(x, weights, dst)"
// ///
