// /// kernel
// doc = "Computes a gradient from partial sums: adds the sums of the query heads that share a KV head, and stores the result with dst's dtype and strides."
// part_of = "flash_attn_backward"
// axes.T = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.WG = { values = [256], pick = "256" }
// inputs.partials = { dtype = "f32", index = false, readonly = true, doc = "(batch, KV heads, group, rows, width)" }
// outputs.dst = { dtype = "T", doc = "(batch, KV heads, rows, cols)" }
// iterate = "nd"
// params.group = { type = "u32" }
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.width = { type = "u32" }
// grid = "cdiv(it.total, WG)"
// ///

// One invocation computes one element of dst. If `group` is 0, there are no partial sums and the
// sum is 0.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let i = g * WG + li;
  if (i >= p.total) { return; }
  let row = i / p.cols;
  let head = row / p.rows;
  var at = p.partials_off + ((head * p.group) * p.rows + row % p.rows) * p.width + i % p.cols;
  var sum = 0.0f;
  for (var n = 0u; n < p.group; n += 1u) {
    sum += partials_load(at);
    at += p.rows * p.width;
  }
  dst_store(dst_index(i), sum);
}
