// /// kernel
// doc = """
// The k largest or smallest elements of each row and their positions, sorted; k is the length of dst.
//
// Equal elements keep their order. Order, NaN and -0 have the same rules as in `sort`, so NaN is
// taken only if there are fewer than k numbers."""
// bodies = ["sort_rows", "sort_merge", "sort_keys", "sort_count", "sort_scatter", "sort_pick", "scan_rows", "scan_totals", "scan_pieces", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_tile"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"], bind = "'u32'", doc = "(..., cols)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"], bind = "'u32'", doc = "(..., k)" }
// outputs.index = { dtype = "*", dtypes = ["int32"], bind = "'u32'", doc = "(..., k)" }
// options.largest = { type = "bool", default = true, doc = "False takes the smallest elements." }
// moves_bytes = true
// ///
