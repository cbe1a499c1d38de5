// /// kernel
// doc = """
// The mean of each window of images; sums are f32.
//
// Pairs are (rows, columns). OH is (H + 2 padding - KH) / stride + 1, rounded down; or rounded up, if the
// last window then begins in the image or in the padding before it; OW likewise. If OH or OW is rounded
// up, elements beyond the padding never count."""
// source = "torch.nn.functional.avg_pool2d"
// bodies = ["pool_block", "pool_windows", "reduce_rows", "reduce_columns", "reduce_combine"]
// include image
// include result
// include windows
// options.count_include_pad = { type = "bool", default = true, doc = "True counts the padding as elements of value 0." }
// options.divisor_override = { type = "int | None", doc = "The divisor of the sums, in place of the number of elements." }
// operations = "dst.size * taps(kernel)"
// ///
