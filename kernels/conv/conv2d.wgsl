// /// kernel
// doc = """
// Convolution of images: dst = act(scale * (x * w) + bias + residual).
//
// (x * w)[n, o, y, x'] is the sum over the channels c of o's group and the taps (i, j) of x[n, c, y
// s + i d - top, x' s + j d - left] w[o, c, i, j]. Sums are f32 and no operand is rounded; x counts
// as 0 outside of the image. Shapes are for layout "NCHW"; with "NHWC" x is (N, H, W, C) and dst
// (N, OH, OW, O), and w does not change. `residual` broadcasts to dst by numpy's rules. Any
// strides; a transposed view costs no copy. Pairs are (rows, columns), four paddings (top, bottom,
// left, right). OH = (H + top + bottom - d (KH - 1) - 1) // s + 1, OW likewise; both must be 1 or
// more."""
// source = "torch.nn.functional.conv2d (meaning); Chellapilla et al. 2006 (as a product)"
// operations = "2 * dst.size * (w.size // max(w.shape[0], 1))"
// bodies = ["implicit_gemm", "implicit_gemm_3x3", "conv_stem", "conv_depthwise", "conv_direct", "conv_pack", "winograd_pack", "winograd_output"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, C, H, W)" }
// inputs.w = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(O, C / groups, KH, KW)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(O,)" }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "A second summand; it broadcasts to dst." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(N, O, OH, OW)" }
// params.scale = { type = "f32", default = 1.0, doc = "The factor of the sums." }
// options.stride = { type = "int | tuple[int, int]", default = 1, doc = "Distance between windows." }
// options.padding = { type = "int | tuple[int, int] | tuple[int, int, int, int] | Literal['same', 'valid']", default = 0, doc = "Rows and columns of zeros around x; 'same' keeps the image's size." }
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Distance between taps." }
// options.groups = { type = "int", default = 1, doc = "The number of groups; an output channel reads only the input channels of its own group." }
// options.layout = { type = "Literal['NCHW', 'NHWC']", default = "NCHW", doc = "Axes of x and dst." }
// options.activation = { type = "Activation | None", doc = "Applied last; 'gelu' uses erf." }
// options.precision = { type = "Literal['fast', 'high'] | None", doc = "For products of float16 on matrix units. None sums float16 results in one piece. 'high' keeps the error bound of float32 results for float16 results, too; 'fast' sums float32 results in one piece, too." }
// ///
