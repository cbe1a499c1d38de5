// /// kernel
// doc = """
// Running sums along the last axis: dst[..., i] = x[..., 0] + ... + x[..., i].
//
// float32 and float16 are summed in f32, as trees of blocks, so that an error grows with the logarithm
// of the position; int32 and uint32 wrap. `dst` may be `x`. The order of the sums depends only on
// shape, strides and device, so two runs give the same bits."""
// source = "Merrill and Grimshaw 2009 (reduce, then scan)"
// operations = "x.size"
// bodies = ["scan_rows", "scan_totals", "scan_pieces", "scan_columns", "scan_column_totals"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16", "int32", "uint32"], bind = "'u32'", doc = "(..., cols)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16", "int32", "uint32"], bind = "'u32'", like = "x", alias = "x" }
// ///
