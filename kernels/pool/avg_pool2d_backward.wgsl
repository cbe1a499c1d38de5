// /// kernel
// doc = """
// The gradient of avg_pool2d's image: each element is the sum, over all windows that contain it, of
// dy divided by the window's number of elements.
//
// Give the options of the forward call. Sums are f32, in the order of rows, so two runs give the
// same bits."""
// source = "torch.nn.functional.avg_pool2d"
// bodies = ["pool_backward_block", "pool_backward_windows", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_rows", "cpy_tile"]
// include result_gradient
// include image_gradient
// include windows
// options.count_include_pad = { type = "bool", default = true, doc = "True counts the padding as elements of value 0." }
// options.divisor_override = { type = "int | None", doc = "The divisor of the sums, in place of the number of elements." }
// operations = "dy.size * (1 + taps(kernel))"
// ///
