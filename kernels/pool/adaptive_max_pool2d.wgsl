// /// kernel
// doc = """
// The largest element of each of OH x OW windows that an image is divided into, and where it is.
//
// Window o has the rows from o H / OH, rounded down, to (o + 1) H / OH, rounded up; columns alike. NaN is
// larger than any number. `index` has the first of several largest elements."""
// source = "torch.nn.functional.adaptive_max_pool2d"
// bodies = ["pool_block", "pool_windows", "reduce_rows", "reduce_columns", "reduce_combine"]
// include image
// outputs.index = { dtype = "*", dtypes = ["int32"], bind = "'u32'", like = "dst", optional = true, doc = "Positions in the H x W elements of an image." }
// include result
// operations = "x.shape[0] * x.shape[1] * spans(x.shape[2], dst.shape[2]) * spans(x.shape[3], dst.shape[3])"
// ///
