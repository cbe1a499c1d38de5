// /// kernel
// doc = """
// Discrete Fourier transform along the last axis, of any length, in f32.
//
// dst[..., k] = scale * sum_n x[..., n] w^(n k) with w = exp(-2 pi i / length), or exp(+2 pi i /
// length) with `inverse`. x is read as if it had `length` elements: zeros follow it, or its end is
// not read. Only the first dst.shape[-1] elements of the result are written. A float32 x has
// imaginary parts of zero. A float32 dst gets the real part; then x is the first half of a spectrum
// whose second half has the conjugates of the first.
//
// `table` has the powers of w, made on the host in float64 by `pykernels.plans.fft.table.table(length)`:
// shaders' sines are not accurate. A length whose prime factors are 2, 3, 5 and 7 takes one pass
// over memory if it is at most 1024 (4096 for powers of two), two passes if it is at most about a
// million, and so on. Any other length is a convolution whose length is a power of two
// (Bluestein)."""
// source = "numpy.fft (meaning); Stockham 1966, Bluestein 1970"
// bodies = ["fft_tile", "fft_mixed"]
// inputs.x = { dtype = "*", dtypes = ["complex64", "float32"], bind = "'u32'", doc = "(..., n)" }
// inputs.table = { dtype = "*", dtypes = ["complex64"], bind = "'u32'", doc = "(entries,), of `table(length)`" }
// outputs.dst = { dtype = "*", dtypes = ["complex64", "float32"], bind = "'u32'", doc = "(..., m) with m <= length and the leading axes of x" }
// options.length = { type = "int", default = 1, doc = "Length of the transform." }
// options.inverse = { type = "bool", default = false, doc = "Transform back." }
// options.scale = { type = "float", default = 1.0, doc = "Factor of the result." }
// operations = "5 * dst.size * length.bit_length()"
// ///
