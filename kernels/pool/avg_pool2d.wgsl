// /// kernel
// doc = """
// The mean of each window of images; sums are f32.
//
// Pairs are (rows, columns). OH is (H + 2 padding - KH) / stride + 1, rounded down, or up, where the last
// window begins in the image or in the padding before it; OW alike. What a window that is rounded up
// has behind the padding never counts."""
// source = "torch.nn.functional.avg_pool2d"
// bodies = ["pool_block", "pool_windows", "reduce_rows", "reduce_columns", "reduce_combine"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, H, W)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, OH, OW), dtype of x" }
// options.kernel = { type = "int | tuple[int, int]", default = 1, doc = "KH, KW." }
// options.stride = { type = "int | tuple[int, int] | None", doc = "Steps between windows; None is KH, KW." }
// options.padding = { type = "int | tuple[int, int]", default = 0, doc = "Rows and columns around the image, up to half a window." }
// options.count_include_pad = { type = "bool", default = true, doc = "True counts the padding as elements of value 0." }
// options.divisor_override = { type = "int | None", doc = "The divisor of the sums, in place of the number of elements." }
// operations = "dst.size * taps(kernel)"
// ///
