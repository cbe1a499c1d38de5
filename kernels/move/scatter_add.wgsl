// /// kernel
// doc = """
// Add elements to the positions along one axis that an index gives: dst[i, index[i, j, k], k] += src[i, j, k].
//
// src has the shape of index. dst has as many axes, with sizes at least as large except along `axis`.
// The elements for one place are summed in f32 (integers wrap), and the sum is added to dst. The
// order depends only on the index, so two calls give the same bits. For an index outside [0, m)
// nothing is added, and IndexRangeError is raised once, at the next synchronisation."""
// source = "torch scatter_add; reduction by key of a sorted list"
// bodies = ["scatter_integers", "scatter_keys", "segment_sum", "sort_rows", "sort_merge", "sort_keys", "sort_count", "sort_scatter", "scan_rows", "scan_totals", "scan_pieces", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_tile"]
// inputs.src = { dtype = "*", dtypes = ["float32", "int32", "uint32"], bind = "'u32'" }
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'" }
// outputs.dst = { dtype = "*", keeps = true, dtypes = ["float32", "int32", "uint32"], bind = "'u32'" }
// options.axis = { type = "int", default = -1, doc = "The axis that the index refers to." }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// bytes = "touched(src, index) + 2 * src.nbytes"
// operations = "src.size"
// ///
