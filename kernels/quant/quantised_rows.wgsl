// /// kernel
// doc = """
// Rows of quantised weights that an index gives, dequantised: dst[..., :] = weights[index[...], :].
//
// The planes are the planes that `pack_blocks` makes of one matrix. For an index outside [0, rows)
// nothing is written, and IndexRangeError is raised once, at the next synchronisation; negative
// indices do not count from the end."""
// source = "ggml GET_ROWS, torch embedding"
// include quantised
// configs.rows32 = { ROWS = 32, GROUPS = 8, threads = 256 }
// axes.D = [2, 4]
// axes.V = [1, 4]
// axes.SHARE = "configs"
// pick.D = "dst.dtype.itemsize"
// pick.SHARE = "'rows32'"
// include planes
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, over = "index.with_layout(dst.shape, index.strides + (0,))", doc = "(...)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], vec = "V", skips = true, bind = "'vec4<u32>' if D * V == 16 else 'vec2<u32>' if D * V == 8 else 'atomic<u32>' if D < 4 else 'u32'", doc = "(..., K)" }
// options.quant = { type = "str", default = "q4_0", doc = "The name of the type." }
// options.rows = { type = "int", default = 0, doc = "The number of rows of the matrix; the planes may have more." }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// iterate = "rows"
// params.groups_k = { type = "u32" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params.limit = { type = "u32" }
// params.across = { type = "u32" }
// faults = true
// bytes = "dst.nbytes + index.nbytes + index.size * (low.nbytes + scales.nbytes + (high.nbytes if high else 0)) // max(low.shape[3], 1)"
// operations = "2 * dst.size"
// uses = ["quant/${TYPE}", "quantised", "convert", "words", "indices", "numbers"]
// grid = "across * cdiv(it.rows, CFG.ROWS)"
// ///

// One invocation takes a group of a row.
${numbers.functions(D)}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  fault_started((id | li) == 0u);
  let line = id / p.across;
  let g = (id - line * p.across) * ${CFG.GROUPS}u + li % ${CFG.GROUPS}u;
  let r = line * ${CFG.ROWS}u + li / ${CFG.GROUPS}u;
  if ((id >= p.groups) | (g >= p.groups_k) | (r >= p.rows)) { return; }
  let word = index_row(r) * p.index_words;
  let lo = index_mem[word];
  let hi = index_mem[word + p.index_words - 1u];
  if (!(${indices.is_inside("lo", "hi")})) {
    if (g == 0u) {
      ${indices.report("r", "lo", "hi")}
    }
    return;
  }
  let row = dst_row(r);
${numbers.store_group("0u", "g", "lo", "dst_at(row", D, V)}
}
