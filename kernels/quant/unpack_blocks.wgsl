// /// kernel
// doc = """
// Convert planes back to quantised blocks in the order of a file: the inverse of pack_blocks."""
// include quantised
// configs.words256 = { threads = 256 }
// axes.SHARE = "configs"
// pick.SHARE = "'words256'"
// include planes
// outputs.dst = { dtype = "*", dtypes = ["uint8"], bind = "'atomic<u32>'", axes = "b n k", doc = "(batches, rows, bytes of a row)" }
// options.quant = { type = "str", default = "q4_0", doc = "The name of the type." }
// params.rows = { type = "u32" }
// params.first_row = { type = "u32" }
// params.row_bytes = { type = "u32" }
// params.row_words = { type = "u32" }
// params.total = { type = "u32" }
// moves_bytes = true
// uses = ["quant/${TYPE}", "words", "file"]
// grid = "cdiv(total, CFG.threads)"
// ///

// One invocation writes the bytes of a row that lie in one word.
${file.writing()}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg) * ${CFG.threads}u + li;
  if (id >= p.total) { return; }
  let line = id / p.row_words;
  own_batch = line / p.rows;
  let r = line - own_batch * p.rows;
  own_row = p.first_row + r;
  let first = p.dst_off + own_batch * p.dst_bs + r * p.dst_ns;
  let word = (first >> 2u) + (id - line * p.row_words);
  var mask = 0u;
  var bits = 0u;
  for (var e = 0u; e < 4u; e++) {
    let at = word * 4u + e;
    if ((at >= first) & (at < first + p.row_bytes)) {
      own_block = (at - first) / ${quant.BYTES}u;
      bits |= file_byte((at - first) % ${quant.BYTES}u) << (8u * e);
      mask |= 0xffu << (8u * e);
    }
  }
  if (mask == 0xffffffffu) {
    atomicStore(&dst_mem[word], bits);
  } else if (mask != 0u) {
    ${words.store_masked("dst_mem", "word", "mask", "bits")}
  }
}
