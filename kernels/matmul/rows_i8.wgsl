// /// kernel
// doc = "Converts rows of floats to bytes for gemv_quant_i8; each group of 32 numbers has a scale."
// part_of = "mul_mat_quant"
// configs.groups64 = { threads = 64 }
// axes.BITS = [2, 4, 8]
// axes.B = { values = ["f32", "u32"], pick = "dtype(b)" }
// axes.V = { values = [4], pick = "4" }
// axes.SHARE = { values = "configs", pick = "'groups64'" }
// inputs.b = { dtype = "B", vec = "V", doc = "(N, K), f32 or words of two halves" }
// outputs.dst = { dtype = "u32", index = false, doc = "(N, K / 32, 8), with four bytes in a word" }
// outputs.sums = { dtype = "f32", index = false, doc = "(N, K / 32, 4): scale, sums of the bytes of both halves, 0" }
// iterate = "rows"
// params.groups_k = { type = "u32" }
// grid = "cdiv(groups_k * it.rows, CFG.threads)"
// ///

// One invocation takes 32 numbers of a row. The bytes are in the order in which `word` in
// lib/quantised.wgsl gives the weights; this order depends on the type's BITS.
@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg) * ${CFG.threads}u + li;
  if (id >= p.groups_k * p.rows) { return; }
  let row = id / p.groups_k;
  let start = b_row(row);
  let first = (id - row * p.groups_k) * ${8 if B == "f32" else 4}u;
  var most = 0.0f;
//% for i in range(8)
//% if B == "f32"
  let v${i} = b_load(b_at(start, first + ${i}u));
//% elif i % 2 == 0
  let h${i} = b_load(b_at(start, first + ${i // 2}u));
  let v${i} = vec4<f32>(unpack2x16float(h${i}.x), unpack2x16float(h${i}.y));
  let v${i + 1} = vec4<f32>(unpack2x16float(h${i}.z), unpack2x16float(h${i}.w));
//% endif
//% endfor
//% for i in range(32)
  let x${i} = v${i // 4}[${i % 4}];
  most = max(most, abs(x${i}));
//% endfor
  let factor = select(0.0f, 127.0f / most, most > 0.0f);
  var sum0 = 0i;
  var sum1 = 0i;
//% for i in range(32)
  let q${i} = i32(round(x${i} * factor));
  sum${i // 16} += q${i};
//% endfor
//% set step = 8 // BITS
//% for i in range(8)
//% set t = (i // step) * 2 * step + i % step
//% set far = t + step
  dst_store(p.dst_off + id * 8u + ${i}u, pack4xI8(vec4<i32>(q${2 * t}, q${2 * far}, q${2 * t + 1}, q${2 * far + 1})));
//% endfor
  let at = p.sums_off + id * 4u;
  sums_store(at, most / 127.0f);
  sums_store(at + 1u, f32(sum0));
  sums_store(at + 2u, f32(sum1));
}
