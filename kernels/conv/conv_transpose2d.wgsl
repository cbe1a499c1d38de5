// /// kernel
// doc = """
// Transposed convolution: dst = act(scale * (the input gradient of conv2d at x) + bias).
//
// w is (C, O / groups, KH, KW), as in the convolution of an image of dst's shape to x's shape. Sums
// are f32. OH = (H - 1) s - top - bottom + d (KH - 1) + 1 + output_padding, OW likewise; both must
// be 1 or more. Pairs are (rows, columns), four paddings (top, bottom, left, right)."""
// source = "torch.nn.functional.conv_transpose2d (meaning)"
// operations = "2 * x.size * (w.size // max(w.shape[0], 1))"
// bodies = ["implicit_gemm", "implicit_gemm_3x3", "conv_stem", "conv_few_outputs", "conv_depthwise", "conv_direct", "conv_pack"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, H, W)" }
// inputs.w = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(C, O / groups, KH, KW)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(O,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, O, OH, OW)" }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of the sums." }
// options.stride = { type = "int | tuple[int, int]", default = 1, doc = "Distance in dst between the windows of neighbouring pixels of x." }
// options.padding = { type = "int | tuple[int, int] | tuple[int, int, int, int]", default = 0, doc = "Rows and columns cut off around dst." }
// options.output_padding = { type = "int | tuple[int, int]", default = 0, doc = "Rows and columns added at the end of dst, fewer than stride or dilation." }
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Distance between taps." }
// options.groups = { type = "int", default = 1, doc = "The number of groups; an output channel reads only the input channels of its own group." }
// options.layout = { type = "Literal['NCHW', 'NHWC']", default = "NCHW", doc = "Axes of x and dst." }
// options.activation = { type = "Activation | None", doc = "Applied last; 'gelu' uses erf." }
// ///
