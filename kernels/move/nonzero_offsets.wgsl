// /// kernel
// doc = """
// The number of nonzero elements before each chunk of 4096, in C order, and their total number.
//
// offsets has cdiv(src.size, 4096) + 1 elements; the last is the count. NaN is not zero, -0.0 is
// zero."""
// bodies = ["nonzero_count", "nonzero_scan"]
// inputs.src = { dtype = "*", bind = "'u32'" }
// outputs.offsets = { dtype = "*", dtypes = ["int32"], bind = "'u32'" }
// moves_bytes = true
// bytes = "touched(src, offsets)"
// ///
