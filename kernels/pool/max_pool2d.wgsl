// /// kernel
// doc = """
// The largest element of each window of images, and its position.
//
// Pairs are (rows, columns). OH is (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, rounded down; or
// rounded up, if the last window then begins in the image or in the padding before it; OW likewise. The
// padding counts as -inf. NaN is larger than any number. If several elements are largest, `index` has the
// position of the first; it is -1 if dilation leaves a window without elements."""
// source = "torch.nn.functional.max_pool2d"
// bodies = ["pool_block", "pool_windows", "reduce_rows", "reduce_columns", "reduce_combine"]
// include image
// outputs.index = { dtype = "*", dtypes = ["int32"], bind = "'u32'", like = "dst", optional = true, doc = "Positions in the H x W elements of an image." }
// include result
// include windows
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Distance between the elements of a window." }
// operations = "dst.size * taps(kernel)"
// ///
