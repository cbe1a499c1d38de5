// /// kernel
// doc = """
// Add rows to the places that an index gives: dst[index[i], :] += src[i, :], summed in f32.
//
// The rows for one place are summed, and the sum is added to dst. The order depends only on the
// index, so two calls give the same bits. For an index outside [0, m) nothing is added, and
// IndexRangeError is raised once, at the next synchronisation; a row whose index is `skip` is left
// out without an error."""
// source = "torch index_add and the gradient of embedding, ggml GET_ROWS_BACK; reduction by key of a sorted list"
// bodies = ["scatter_keys", "segment_rows", "sort_rows", "sort_merge", "sort_keys", "sort_count", "sort_scatter", "scan_rows", "scan_totals", "scan_pieces", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_tile"]
// inputs.src = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(n, k)" }
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", doc = "(n,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32"], bind = "'u32'", in_place = true, doc = "(m, k)" }
// options.skip = { type = "int | None", doc = "An index whose rows add nothing." }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// bytes = "touched(src, index) + 8 * min(src.size, dst.size)"
// operations = "src.size"
// ///
