// /// kernel
// doc = """
// The gradient of adaptive_max_pool2d by its image: dst[n, c, h, w] is the sum of dy where index is h W + w.
//
// Sums are f32, in the order of rows: two runs give the same bits."""
// source = "torch.nn.functional.adaptive_max_pool2d"
// bodies = ["pool_backward_block", "pool_backward_windows"]
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, OH, OW)" }
// inputs.index = { dtype = "*", dtypes = ["int32"], bind = "'u32'", like = "dy", doc = "Of the forward call." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, H, W), dtype of dy" }
// operations = "dy.size"
// ///
