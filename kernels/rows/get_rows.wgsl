// /// kernel
// doc = """
// Read rows from the places that an index gives: dst[..., i, :] = src[..., index[..., i], :].
//
// The leading axes of src and of index repeat to the leading axes of dst, so a matrix src and an index of
// any shape make an embedding lookup. If the dtypes are equal, bits are copied; float32, float16 and
// bfloat16 convert to each other, rounded to nearest even (overflow: inf). For an index outside [0, m)
// nothing is written, and IndexRangeError is raised once, at the next synchronisation; negative indices
// do not count from the end."""
// source = "ggml GET_ROWS, torch index_select and embedding"
// configs.cols2 = { ROWS = 1, COLS = 2, threads = 256 }
// axes."S D" = [1, 2, 4, 8, 16]
// axes.V = [1, 4]
// axes."CAST PAIR" = [false, true]
// axes.SHARE = { values = "configs", pick = "'cols2'" }
// when = ["(S, D) in ((2, 4), (4, 2), (2, 2)) if CAST else (S == D and V == 1)", "not PAIR or (D == 2 and V == 1)"]
// inputs.src = { dtype = "*", vec = "V", over = "src.with_layout(dst.shape, src.strides[:-2] + (0, src.strides[-1]))", bind = "'vec4<u32>' if S * V == 16 else 'vec2<u32>' if S * V == 8 else 'u32'", doc = "(..., m, k)" }
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, over = "index.with_layout(dst.shape, index.strides + (0,))", doc = "(..., n)" }
// outputs.dst = { dtype = "*", vec = "V", skips = true, bind = "'vec4<u32>' if D * V == 16 else 'vec2<u32>' if D * V == 8 else 'atomic<u32>' if D < 4 else 'u32'", doc = "(..., n, k)" }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// iterate = "rows"
// params.width = { type = "u32", value = "dst.shape[-1] // V" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params."limit first_row own_rows last_row" = { type = "u32" }
// params.pitch = { type = "u32", value = "src.strides[-2] // (src.dtype.itemsize * V) % (1 << 32)" }
// params."lane_bits tiles src_kind dst_kind" = { type = "u32" }
// faults = true
// bytes = "dst.size * src.dtype.itemsize + touched(index, dst)"
// moves_bytes = true
// uses = ["convert", "rows"]
// grid = "tiles * cdiv(it.rows, CFG.ROWS * (CFG.threads >> lane_bits))"
// ///

// lib/rows.wgsl says how the work is split. Rows of src are picked, and rows of dst are written in
// order.
//% if CAST
${convert.functions()}
${rows.functions(S, D, V)}
//% endif
${rows.main("src", S, D, V, CAST, PAIR)}
