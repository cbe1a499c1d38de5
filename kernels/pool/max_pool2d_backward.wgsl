// /// kernel
// doc = """
// The gradient of max_pool2d by its image: dst[n, c, h, w] is the sum of dy where index is h W + w.
//
// Give the options of the forward call and the index that it wrote. Each element gathers from the windows
// around it, in f32, in the order of rows: two runs give the same bits."""
// source = "torch.nn.functional.max_pool2d"
// bodies = ["pool_backward_block", "pool_backward_windows"]
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, OH, OW)" }
// inputs.index = { dtype = "*", dtypes = ["int32"], bind = "'u32'", like = "dy", doc = "Of the forward call." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, H, W), dtype of dy" }
// options.kernel = { type = "int | tuple[int, int]", default = 1, doc = "KH, KW." }
// options.stride = { type = "int | tuple[int, int] | None", doc = "Steps between windows; None is KH, KW." }
// options.padding = { type = "int | tuple[int, int]", default = 0, doc = "Rows and columns around the image, up to half a window." }
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Steps between the elements of a window." }
// operations = "dy.size"
// ///
