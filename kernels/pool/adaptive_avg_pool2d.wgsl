// /// kernel
// doc = """
// The mean of each of OH x OW windows that an image is divided into; sums are f32.
//
// Window o has the rows from o H / OH, rounded down, to (o + 1) H / OH, rounded up; columns likewise."""
// source = "torch.nn.functional.adaptive_avg_pool2d"
// bodies = ["pool_block", "pool_windows", "reduce_rows", "reduce_columns", "reduce_combine"]
// include image
// include result
// operations = "x.shape[0] * x.shape[1] * spans(x.shape[2], dst.shape[2]) * spans(x.shape[3], dst.shape[3])"
// ///
