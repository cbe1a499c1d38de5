// /// kernel
// doc = """
// The gradient of max_pool2d's image: dst[n, c, h, w] is the sum of dy where index is h W + w.
//
// Give the options of the forward call and the index that it wrote. Each element adds the gradients
// of the windows around it, in f32 and in the order of rows, so two runs give the same bits."""
// source = "torch.nn.functional.max_pool2d"
// bodies = ["pool_backward_block", "pool_backward_windows"]
// include result_gradient
// inputs.index = { dtype = "*", dtypes = ["int32"], bind = "'u32'", like = "dy", doc = "The `index` of the forward call." }
// include image_gradient
// include windows
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Distance between the elements of a window." }
// operations = "dy.size"
// ///
