// /// kernel
// doc = """
// The largest element of each of OH x OW windows that an image is divided into, and its position.
//
// Window o has the rows from o H / OH, rounded down, to (o + 1) H / OH, rounded up; columns likewise. NaN is
// larger than any number. If several elements are largest, `index` has the position of the first."""
// source = "torch.nn.functional.adaptive_max_pool2d"
// bodies = ["pool_block", "pool_windows", "reduce_rows", "reduce_columns", "reduce_combine"]
// include image
// outputs.index = { dtype = "*", dtypes = ["int32"], bind = "'u32'", like = "dst", optional = true, doc = "Positions in the H x W elements of an image." }
// include result
// operations = "x.shape[0] * x.shape[1] * spans(x.shape[2], dst.shape[2]) * spans(x.shape[3], dst.shape[3])"
// ///
