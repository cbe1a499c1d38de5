// /// kernel
// doc = """
// The gradient of avg_pool2d by its image: the sum of dy / elements of the windows around an element.
//
// Give the options of the forward call. Sums are f32, in the order of rows: two runs give the same bits."""
// source = "torch.nn.functional.avg_pool2d"
// bodies = ["pool_backward_block", "pool_backward_windows", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_rows", "cpy_tile"]
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, OH, OW)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, H, W), dtype of dy" }
// options.kernel = { type = "int | tuple[int, int]", default = 1, doc = "KH, KW." }
// options.stride = { type = "int | tuple[int, int] | None", doc = "Steps between windows; None is KH, KW." }
// options.padding = { type = "int | tuple[int, int]", default = 0, doc = "Rows and columns around the image, up to half a window." }
// options.count_include_pad = { type = "bool", default = true, doc = "True counts the padding as elements of value 0." }
// options.divisor_override = { type = "int | None", doc = "The divisor of the sums, in place of the number of elements." }
// operations = "dy.size * (1 + taps(kernel))"
// ///
