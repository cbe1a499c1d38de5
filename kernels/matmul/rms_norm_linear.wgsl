// /// kernel
// doc = """
// A norm and the product after it, for one row: dst = act(rms_norm(x, gain) @ w.T + bias), in one dispatch.
//
// w is (m, k), or the planes low, scales and high of quantised weights of the type `quant`, as in
// mul_mat_quant. With `gated`, the first half of w's rows gives a gate, and dst is act(gate) times the
// results of the second half. Sums are f32; the normalised row is not rounded."""
// source = "Zhang and Sennrich 2019; Shazeer 2020 (GLU variants)"
// bodies = ["gemv_normed", "gemv_normed_quant"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(k,)" }
// inputs.gain = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(k,), of x's dtype: the weight of the norm" }
// inputs.w = { dtype = "*", dtypes = ["float32", "float16", "uint32"], bind = "'u32'", doc = "(m, k), float32 or float16; or the plane low of quantised weights" }
// inputs.scales = { dtype = "u32", optional = true, doc = "The plane of scales of quantised weights" }
// inputs.high = { dtype = "u32", optional = true, doc = "The plane high of quantised weights, for types with this plane" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "(m,)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(m,), or (m / 2,) for a gated product" }
// options.eps = { type = "float", default = 1e-5, doc = "Added to the mean of the squares." }
// options.quant = { type = "str", default = "", doc = "The name of the type of quantised weights; '' for weights of floats." }
// options.activation = { type = "Activation | None", doc = "The activation of the sums with bias; 'gelu' uses erf." }
// options.gated = { type = "bool", default = false, doc = "True gives the activation of the first half, times the second half." }
// operations = "2 * x.size * dst.size * (2 if gated else 1) + 3 * x.size"
// ///
