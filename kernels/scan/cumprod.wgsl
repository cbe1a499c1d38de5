// /// kernel
// doc = """
// Running products along the last axis: dst[..., i] = x[..., 0] * ... * x[..., i].
//
// float32 and float16 are multiplied in f32, as trees of blocks. If the product of a block leaves
// the range of f32, so do all results that contain the block. int32 and uint32 wrap. `dst` may be
// `x`. Two runs give the same bits."""
// source = "Merrill and Grimshaw 2009 (reduce, then scan)"
// operations = "x.size"
// bodies = ["scan_rows", "scan_totals", "scan_pieces", "scan_columns", "scan_column_totals"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16", "int32", "uint32"], bind = "'u32'", doc = "(..., cols)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16", "int32", "uint32"], bind = "'u32'", like = "x", alias = "x" }
// ///
