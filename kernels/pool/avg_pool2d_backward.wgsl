// /// kernel
// doc = """
// The gradient of avg_pool2d by its image: the sum of dy / elements of the windows around an element.
//
// Give the options of the forward call. Sums are f32, in the order of rows: two runs give the same bits."""
// source = "torch.nn.functional.avg_pool2d"
// bodies = ["pool_backward_block", "pool_backward_windows", "cpy", "cpy_block", "cpy_bytes", "cpy_cast", "cpy_rows", "cpy_tile"]
// include result_gradient
// include image_gradient
// include windows
// options.count_include_pad = { type = "bool", default = true, doc = "Does the padding count as elements, which are 0?" }
// options.divisor_override = { type = "int | None", doc = "What sums are divided by, in place of the number of elements." }
// operations = "dy.size * (1 + taps(kernel))"
// ///
