// /// kernel
// doc = """
// The sorted elements of each row, ascending or descending.
//
// The sort is stable and copies bits. -0 equals 0, so zeros of both signs keep their order. NaN is
// last in both orders. Rows have up to 2^30 elements, if bindings are large enough."""
// source = "Batcher 1968 (bitonic); Satish, Harris and Garland 2009 (radix sort by tiles)"
// bodies = ["sort_rows", "sort_merge", "sort_keys", "sort_count", "sort_scatter", "scan_rows", "scan_totals", "scan_pieces", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_tile"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"], bind = "'u32'", doc = "(..., cols)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"], bind = "'u32'", like = "x" }
// options.descending = { type = "bool", default = false, doc = "True puts the largest elements first; NaN is still last." }
// moves_bytes = true
// ///
