// /// kernel
// doc = """
// Keep the last of equal indices along an axis: kept[i, j, k] = index[i, j, k], or -1 if index[i, l, k]
// is equal for an l above j (axis 1).
//
// An index outside [0, limit) becomes -1 too, and raises IndexRangeError once, at the next
// synchronisation. If `kept` is the index of a write, no place is written twice."""
// source = "numpy: of assignments to one place the last one stays; hashing with linear probing: Knuth 6.4"
// bodies = ["last_pairs", "last_claim", "last_keep", "bincount_clear"]
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true }
// outputs.kept = { dtype = "*", dtypes = ["int32"], bind = "'u32'" }
// options.axis = { type = "int", default = -1, doc = "The axis that the index refers to." }
// options.limit = { type = "int", default = 2147483647, doc = "One more than the largest index." }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// bytes = "touched(index, kept)"
// operations = "index.size"
// ///
