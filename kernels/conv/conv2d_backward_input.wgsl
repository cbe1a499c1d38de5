// /// kernel
// doc = """
// The gradient of conv2d's input.
//
// dst[n, c, y, x] is the sum over output channels o and taps (i, j) of dy[n, o, u, v] w[o, c, i, j]
// wherever u s + i d - top = y and v s + j d - left = x. dst has the shape of conv2d's x; w and the
// options are the same as in the forward call. Sums are f32. No zeros are inserted between the
// pixels of dy, because each residue of the strides is a convolution of its own."""
// source = "torch.nn.grad.conv2d_input (meaning)"
// operations = "2 * dy.size * (w.size // max(w.shape[0], 1))"
// bodies = ["implicit_gemm", "implicit_gemm_3x3", "conv_stem", "conv_few_outputs", "conv_depthwise", "conv_direct", "conv_pack"]
// inputs.dy = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, O, OH, OW)" }
// inputs.w = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(O, C / groups, KH, KW)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, H, W)" }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of the sums." }
// options.stride = { type = "int | tuple[int, int]", default = 1, doc = "Distance between windows." }
// options.padding = { type = "int | tuple[int, int] | tuple[int, int, int, int] | Literal['same', 'valid']", default = 0, doc = "Rows and columns of zeros around x." }
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Distance between taps." }
// options.groups = { type = "int", default = 1, doc = "The number of groups; an output channel reads only the input channels of its own group." }
// options.layout = { type = "Literal['NCHW', 'NHWC']", default = "NCHW", doc = "Axes of dy and dst." }
// ///
