// /// kernel
// doc = """
// Rows of weights that a device holds in the form of a file, dequantised: dst[..., :] =
// weights[index[...], :].
//
// Every number is exact, or for float8_e4m3 one product in f32; float16 is then rounded to nearest even.
// For an index outside [0, rows) nothing is written, and IndexRangeError is raised once, at the next
// synchronisation; negative indices do not count from the end."""
// source = "ggml's dequantize_row; DeepSeek-V3's weight_dequant"
// axes.TYPE = ["float8_e4m3", "nvfp4", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "tq1_0", "tq2_0"]
// configs.rows4 = { ROWS = 4, FOURS = 64, threads = 256 }
// axes.D = [2, 4]
// axes.V = [4]
// axes.SHARE = "configs"
// pick.D = "dst.dtype.itemsize"
// pick.V = "4"
// pick.SHARE = "'rows4'"
// inputs.data = { dtype = "*", dtypes = ["uint8"], index = false, bind = "'u32'", axes = "n k", doc = "(rows, bytes of a row)" }
// inputs.table = { dtype = "u32", index = false, axes = "w", optional = true, when = "TYPE[:2] == 'iq'", doc = "(words,): for IQ types, the entries from which numbers are taken, as signed bytes." }
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, over = "index.with_layout(dst.shape, index.strides + (0,))", doc = "(...)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], vec = "V", skips = true, bind = "'vec4<u32>' if D == 4 else 'vec2<u32>'", doc = "(..., K)" }
// options.quant = { type = "str", default = "iq2_xxs", doc = "The name of the type." }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// iterate = "rows"
// params.fours = { type = "u32" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params."limit first_row own_rows across" = { type = "u32" }
// faults = true
// bytes = "dst.nbytes + index.nbytes + index.size * data.shape[1] + (table.nbytes if table else 0)"
// operations = "2 * dst.size"
// uses = ["raw/${TYPE}", "raw_blocks", "convert", "indices"]
// grid = "across * cdiv(it.rows, CFG.ROWS)"
// ///

// One invocation takes four numbers of a row.
${convert.wide()}
${raw_blocks.functions()}
//% if D == 2
${convert.half()}
//% endif

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  fault_started((id | li) == 0u);
  let line = id / p.across;
  let q = (id - line * p.across) * ${CFG.FOURS}u + li % ${CFG.FOURS}u;
  let r = line * ${CFG.ROWS}u + li / ${CFG.FOURS}u;
  if ((id >= p.groups) | (q >= p.fours) | (r >= p.rows)) { return; }
  let word = index_row(r) * p.index_words;
  let lo = index_mem[word];
  let hi = index_mem[word + p.index_words - 1u];
  if (!(${indices.is_inside("lo", "hi")})) {
    if (q == 0u) {
      ${indices.report("r", "lo", "hi")}
    }
    return;
  }
  let n = lo - p.first_row;  // a row beyond own_rows belongs to another part
  if (n >= p.own_rows) { return; }
  let row = dst_row(r);
  let block = q / ${raw.BLOCK // 4}u;
  let x = four(p.data_off + n * p.data_ns + block * ${raw.BYTES}u, q % ${raw.BLOCK // 4}u);
  let bits = bitcast<vec4<u32>>(x);
//% if D == 2
  let halves = vec4<u32>(
    f16_bits_of_f32(bits.x), f16_bits_of_f32(bits.y), f16_bits_of_f32(bits.z), f16_bits_of_f32(bits.w));
//% endif
  dst_mem[dst_at(row, q)] = ${"bits" if D == 4 else "vec2<u32>(halves.x | (halves.y << 16u), halves.z | (halves.w << 16u))"};
}
