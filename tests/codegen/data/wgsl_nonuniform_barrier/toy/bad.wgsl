// /// kernel
// doc = "y = x * factor."
// axes.T = ["f32", "f16"]
// axes.WG = [64]
// pick.T = "dtype(x)"
// pick.WG = "64"
// inputs.x = { dtype = "T" }
// outputs.dst = { dtype = "T", like = "x" }
// params.factor = { type = "f32", default = 1.0 }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// ///

var<workgroup> shared_x: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  shared_x[li] = x_load(x_index(i));
//% for k in range(2)
  workgroupBarrier();
//% endfor
  dst_store(dst_index(i), shared_x[WG - 1u - li] * p.factor);
}
