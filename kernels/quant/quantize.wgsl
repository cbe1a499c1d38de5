// /// kernel
// doc = """
// Quantise numbers by ggml's rule, into the planes of `pack_blocks`.
//
// A block with a NaN becomes NaN. A number half-way between two steps may be rounded to a different
// step than in ggml."""
// source = "ggml's quantize_row_*_ref"
// configs.rows32 = { ROWS = 32, GROUPS = 8, threads = 256 }
// axes.TYPE = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "mxfp4"]
// axes.LV = [4]
// axes.T = ["f32", "f16"]
// axes.V = [4]
// axes.SHARE = "configs"
// pick.LV = "4"
// pick.T = "dtype(x)"
// pick.V = "4"
// pick.SHARE = "'rows32'"
// inputs.x = { dtype = "T", vec = "V", axes = "a r k", doc = "(..., rows, K)" }
// include written
// options.quant = { type = "str", default = "q4_0", doc = "The name of the type." }
// params.rows = { type = "u32" }
// params.padded = { type = "u32" }
// params.first_row = { type = "u32" }
// params.groups_k = { type = "u32" }
// params.across = { type = "u32" }
// params.down = { type = "u32" }
// operations = "6 * x.size"
// uses = ["quant/${TYPE}", "convert", "making", "planes"]
// grid = "across * down * low.shape[0]"
// ///

// One invocation takes a block of a row. Records that share a word go through workgroup memory.
${convert.half()}
${making.functions()}
//% if quant.SHARE > 1
var<workgroup> records: array<u32, ${CFG.threads}>;
//% endif

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  if (id >= p.groups) { return; }
  let line = id / p.across;
  let b = line / p.down;
  let g = (line - b * p.down) * ${CFG.GROUPS}u + li % ${CFG.GROUPS}u;
  let r = (id - line * p.across) * ${CFG.ROWS}u + li / ${CFG.GROUPS}u;
  let live = (g < p.groups_k) & (r < p.rows);
  let n = p.first_row + r;
  let source = p.x_off + b * p.x_as + min(r, p.rows - 1u) * p.x_rs;
  let k = min(g, p.groups_k - 1u) * 32u;
//% for i in range(8)
  let v${i} = x_load(source + (k / 4u + ${i}u) * p.x_ks);
//% for e in range(4)
  numbers[${4 * i + e}] = select(0.0f, v${i}[${e}], live);
//% endfor
//% endfor
  var record = make_block();
  if (!live) { record = 0u; }
//% for t in range(16)
  let c${t} = select(0u, stored[${2 * t}] | (stored[${2 * t + 1}] << 16u), live);
//% endfor
//% if quant.SHARE > 1
  records[li] = record;
  workgroupBarrier();
  record = 0u;
  let first = min(li, ${CFG.threads - (quant.SHARE - 1) * CFG.GROUPS - 1}u);
//% for e in range(quant.SHARE)
  record |= records[first + ${e * CFG.GROUPS}u] << ${e * 32 // quant.SHARE}u;
//% endfor
//% endif
  if ((g >= p.groups_k) | (r >= p.padded)) { return; }
${planes.store_low()}
//% if quant.HIGH
${planes.store_high()}
//% endif
  if (n % ${quant.SHARE}u == 0u) {
    scales_store(p.scales_off + b * p.scales_bs + g * p.scales_gs + n / ${quant.SHARE}u, record);
  }
}
