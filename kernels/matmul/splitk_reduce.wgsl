// /// kernel
// doc = "Split-K: adds up the splits, and applies the epilogue of mul_mat."
// part_of = "mul_mat"
// configs.sum256 = { threads = 256 }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.V = [1, 4]
// axes.SUM = { values = "configs", pick = "'sum256'" }
// pick.V = "4 if partials.size > 1 and dst.contiguous and dst.size % 4 == 0 and dst.aligned(4 * dst.dtype.itemsize, ()) else 1"
// inputs.partials = { dtype = "f32", vec = "V", index = false, doc = "(splits, elements of dst)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", vec = "V" }
// iterate = "nd"
// params."splits lane_bits" = { type = "u32" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// params.residual_kind = { type = "u32", value = "0 if residual is None else 1 if residual.dtype.itemsize == 4 else 2" }
// params.activation = { type = "u32" }
// params.scale = { type = "f32", arg = true }
// uses = ["tile/epilogue", "tile/split_k"]
// grid = "cdiv(it.total << lane_bits, V * CFG.threads)"
// ///

// 2^lane_bits invocations share the splits of an element of dst, or of a vector of four if dst is
// contiguous. Neighbouring invocations take neighbouring elements. If there are no splits (K = 0),
// the sum is 0.
//% set T = "vec4<f32>" if V == 4 else "f32"
var<workgroup> partial: array<${T}, ${CFG.threads}>;

${epilogue.functions()}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let across = ${CFG.threads}u >> p.lane_bits;
  let lanes = 1u << p.lane_bits;
  let lane = li / across;
  let i = g * across + li - lane * across;
  let total = p.total / V;
  let near = p.partials_off + min(i, total - 1u);
  var sum = ${T}();
  // Four loads are made at once, because a single load would leave half of the bandwidth unused.
  for (var s = lane; s < p.splits; s += 4u * lanes) {
//% for u in range(4)
    let v${u} = partials_load(near + min(s + ${u}u * lanes, p.splits - 1u) * total);
//% endfor
//% for u in range(4)
    sum += select(${T}(), v${u}, s + ${u}u * lanes < p.splits);
//% endfor
  }
  if (p.lane_bits > 0u) {
    partial[li] = sum;
    workgroupBarrier();
    ${split_k.tree("across")}
    sum = partial[li];
  }
  if ((lane > 0u) | (i >= total)) { return; }
  var v = sum * p.scale;
//% for t in ("bias", "residual")
//% if V == 4
  if (p.${t}_kind != 0u) {
    v += vec4<f32>(${t}_value(${t}_index(i * 4u)), ${t}_value(${t}_index(i * 4u + 1u)), ${t}_value(${t}_index(i * 4u + 2u)), ${t}_value(${t}_index(i * 4u + 3u)));
  }
//% else
  if (p.${t}_kind != 0u) { v += ${t}_value(${t}_index(i)); }
//% endif
//% endfor
//% if V == 4
  if (p.activation != 0u) { v = activate(v, p.activation); }
  dst_store(p.dst_off + i, v);
//% else
  if (p.activation != 0u) { v = activate(vec4<f32>(v), p.activation).x; }
  dst_store(dst_index(i), v);
//% endif
}
