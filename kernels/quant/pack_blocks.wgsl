// /// kernel
// doc = """
// Convert quantised blocks, in the order of a file, to the planes that products read.
//
// The planes are uint32: low (batches, K / 32, parts, rows, vec), scales (batches, K / block, words,
// rows / share), and high (batches, K / 32, words, rows) for types with more bits than low has.
// Rows of zeros pad the number of rows to a multiple of four. `pk.QTensor` holds the planes;
// nothing is rounded."""
// include quantised
// configs.rows32 = { ROWS = 32, GROUPS = 8, threads = 256 }
// axes.SHARE = "configs"
// pick.SHARE = "'rows32'"
// inputs.raw = { dtype = "*", dtypes = ["uint8"], bind = "'u32'", axes = "b n k", doc = "(batches, rows, bytes of a row)" }
// include written
// options.quant = { type = "str", default = "q4_0", doc = "The name of the type." }
// params.rows = { type = "u32" }
// params.first_row = { type = "u32" }
// params.padded = { type = "u32" }
// params.groups_k = { type = "u32" }
// params.across = { type = "u32" }
// params.down = { type = "u32" }
// moves_bytes = true
// uses = ["quant/${TYPE}", "file", "planes"]
// grid = "across * down * low.shape[0]"
// ///

// One invocation takes a group of a row.
${file.reading()}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  let line = id / p.across;
  let b = line / p.down;
  let g = (line - b * p.down) * ${CFG.GROUPS}u + li % ${CFG.GROUPS}u;
  let r = (id - line * p.across) * ${CFG.ROWS}u + li / ${CFG.GROUPS}u;
  if ((id >= p.groups) | (g >= p.groups_k) | (r >= p.padded)) { return; }
  let n = p.first_row + r;
  let block = g / ${quant.BLOCK // 32}u;
  let at = p.raw_off + b * p.raw_bs + r * p.raw_ns + block * ${quant.BYTES}u;
//% for t in range(16)
  var c${t} = 0u;
//% endfor
  if (r < p.rows) {
    let first = (g % ${quant.BLOCK // 32}u) * 32u;
//% for t in range(16)
    c${t} = file_number(at, first + ${2 * t}u) | (file_number(at, first + ${2 * t + 1}u) << 16u);
//% endfor
  }
${planes.store_low()}
//% if quant.HIGH
${planes.store_high()}
//% endif
  if ((g % ${quant.BLOCK // 32}u != 0u) | (n % ${quant.SHARE}u != 0u)) { return; }
  let record = p.scales_off + b * p.scales_bs + block * p.scales_gs + n / ${quant.SHARE}u;
//% for k in range(quant.WORDS)
  var word${k} = 0u;
//% for e in range(quant.SHARE)
  if (r + ${e}u < p.rows) { word${k} |= file_record(at + ${e}u * p.raw_ns, ${k}u) << ${e * 32 // quant.SHARE}u; }
//% endfor
  scales_store(record${" + %du * p.scales_ws" % k if k else ""}, word${k});
//% endfor
}
