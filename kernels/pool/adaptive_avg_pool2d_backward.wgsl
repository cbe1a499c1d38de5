// /// kernel
// doc = """
// The gradient of adaptive_avg_pool2d by its image: for each element of the image, the sum over its windows of dy divided by the window's number of elements.
//
// Sums are f32, in the order of rows: two runs give the same bits."""
// source = "torch.nn.functional.adaptive_avg_pool2d"
// bodies = ["pool_backward_block", "pool_backward_windows", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_rows", "cpy_tile"]
// include result_gradient
// include image_gradient
// operations = "dy.size + dy.shape[0] * dy.shape[1] * spans(dst.shape[2], dy.shape[2]) * spans(dst.shape[3], dy.shape[3])"
// ///
