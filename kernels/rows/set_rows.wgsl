// /// kernel
// doc = """
// Write rows to the places that an index gives: dst[..., index[..., i], :] = src[..., i, :].
//
// src and dst have the same leading axes, and the leading axes of index repeat to them: index[b]
// belongs to every src[b + j * len(index)]. If the dtypes are equal, bits are copied; float32, float16
// and bfloat16 convert to each other, rounded to nearest even (overflow: inf). For an index outside [0,
// m) nothing is written, and IndexRangeError is raised once, at the next synchronisation. If several
// rows have the same index, the last of them is stored (numpy). Finding this row takes passes over
// the index, which are left out with `distinct`. Other rows of dst do not change."""
// source = "ggml SET_ROWS, torch index_copy"
// configs.cols2 = { ROWS = 1, COLS = 2, threads = 256 }
// axes."S D" = [1, 2, 4, 8, 16]
// axes.V = [1, 4]
// axes."CAST PAIR" = [false, true]
// axes.SHARE = { values = "configs", pick = "'cols2'" }
// when = ["(S, D) in ((2, 4), (4, 2), (2, 2)) if CAST else (S == D and V == 1)", "not PAIR or (D == 2 and V == 1)"]
// inputs.src = { dtype = "*", vec = "V", bind = "'vec4<u32>' if S * V == 16 else 'vec2<u32>' if S * V == 8 else 'u32'", doc = "(..., n, k)" }
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, over = "index.with_layout(src.shape, index.strides + (0,))", doc = "(..., n)" }
// outputs.dst = { dtype = "*", vec = "V", keeps = true, over = "dst.with_layout(src.shape, dst.strides[:-2] + (0, dst.strides[-1]))", bind = "'vec4<u32>' if D * V == 16 else 'vec2<u32>' if D * V == 8 else 'atomic<u32>' if D < 4 else 'u32'", doc = "(..., m, k)" }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// options.distinct = { type = "bool", default = false, doc = "True promises that no two rows have the same index; this is not checked. If two rows do, each stored element is from one of them." }
// iterate = "rows"
// params.width = { type = "u32", value = "src.shape[-1] // V" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params."limit first_row own_rows" = { type = "u32" }
// params.pitch = { type = "u32", value = "dst.strides[-2] // (dst.dtype.itemsize * V) % (1 << 32)" }
// params."lane_bits tiles src_kind dst_kind" = { type = "u32" }
// faults = true
// bytes = "touched(src, index) + src.size * dst.dtype.itemsize"
// moves_bytes = true
// uses = ["convert", "rows"]
// grid = "tiles * cdiv(it.rows, CFG.ROWS * (CFG.threads >> lane_bits))"
// ///

// lib/rows.wgsl says how the work is split. Rows of src are read in order, and rows of dst are
// picked.
//% if CAST
${convert.functions()}
${rows.functions(S, D, V)}
//% endif
${rows.main("dst", S, D, V, CAST, PAIR)}
