// /// kernel
// doc = "y = x * factor."
// configs.small = { BM = 2, threads = 64 }
// configs.large = { BM = 8, threads = 128 }
// axes.TILE = "configs"
// pick.TILE = "'large' if x.size > 999 else 'small'"
// inputs.x = { dtype = "f32", index = false, axes = "n c" }
// outputs.dst = { dtype = "f32", like = "x" }
// params.factor = { type = "f32", default = 1.0 }
// iterate = "nd"
// grid = "cdiv(it.total, CFG.BM * CFG.threads)"
// ///

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let first = group_id(wg) * ${CFG.BM * CFG.threads}u + li;
//% for u in range(CFG.BM)
  let i${u} = first + ${u * CFG.threads}u;
  if (i${u} < p.total) { dst_store(dst_index(i${u}), x_load(p.x_off + i${u} * p.x_ws) * p.factor); }
//% endfor
}
