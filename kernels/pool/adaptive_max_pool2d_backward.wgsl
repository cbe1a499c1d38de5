// /// kernel
// doc = """
// The gradient of adaptive_max_pool2d's image: dst[n, c, h, w] is the sum of dy where index is h W
// + w.
//
// Sums are f32, in the order of rows, so two runs give the same bits."""
// source = "torch.nn.functional.adaptive_max_pool2d"
// bodies = ["pool_backward_block", "pool_backward_windows"]
// include result_gradient
// inputs.index = { dtype = "*", dtypes = ["int32"], bind = "'u32'", like = "dy", doc = "The `index` of the forward call." }
// include image_gradient
// operations = "dy.size"
// ///
