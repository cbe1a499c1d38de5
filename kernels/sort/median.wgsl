// /// kernel
// doc = """
// The median of each row: the middle element of the sorted row, or (a + b) / 2 of the middle two, in f32.
//
// A row with a NaN gives NaN (numpy)."""
// operations = "x.size"
// bodies = ["sort_middle", "sort_rows", "sort_merge", "sort_keys", "sort_count", "sort_scatter", "scan_rows", "scan_totals", "scan_pieces", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_tile"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(..., cols), cols is 1 or more" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(...)" }
// ///
