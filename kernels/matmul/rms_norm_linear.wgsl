// /// kernel
// doc = """
// A norm and the product behind it for one row: dst = act(rms_norm(x, gain) @ w.T + bias), in one dispatch.
//
// w is (m, k), or the planes of quantised weights of the type `quant`: low, scales and high as
// mul_mat_quant has them. With `gated`, w has the rows of a gate and as many behind them, and dst is
// act(gate) times the others. Sums are f32; the normalised row is not rounded."""
// source = "Zhang and Sennrich 2019; Shazeer 2020 (GLU variants)"
// bodies = ["gemv_normed", "gemv_normed_quant"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(k,)" }
// inputs.gain = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(k,), of x's dtype: the weight of the norm" }
// inputs.w = { dtype = "*", dtypes = ["float32", "float16", "uint32"], bind = "'u32'", doc = "(m, k), float32 or float16; or the plane low of quantised weights" }
// inputs.scales = { dtype = "u32", optional = true, doc = "Of quantised weights" }
// inputs.high = { dtype = "u32", optional = true, doc = "Of quantised weights with such a plane" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(m,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(m,), or (m / 2,) of a gated product" }
// options.eps = { type = "float", default = 1e-5, doc = "Added to the mean of the squares." }
// options.quant = { type = "str", default = "", doc = "The type of quantised weights by its name; '' for others." }
// options.activation = { type = "Activation | None", doc = "Of the sums with their bias; 'gelu' uses erf." }
// options.gated = { type = "bool", default = false, doc = "True: the activation of the first half, times the second half." }
// operations = "2 * x.size * dst.size * (2 if gated else 1) + 3 * x.size"
// ///
