// /// kernel
// doc = "Sums of weights over runs of equal sorted keys."
// part_of = "bincount_weights"
// configs.each4 = { UNROLL = 4, threads = 256 }
// axes.SHARE = { values = "configs", pick = "'each4'" }
// inputs.keys = { dtype = "u32", index = false, doc = "the sorted keys, padded or not" }
// inputs.items = { dtype = "u32", index = false, doc = "the positions of the keys in x" }
// inputs.weights = { dtype = "f32", axes = "n" }
// outputs.dst = { dtype = "f32", axes = "n" }
// iterate = "none"
// params.length = { type = "u32" }
// params.bins = { type = "u32", value = "dst.size" }
// params.lane_bits = { type = "u32" }
// grid = "cdiv(dst.size, CFG.threads >> lane_bits)"
// ///

//% set WG, UNROLL = CFG.threads, CFG.UNROLL
// 2^lane_bits invocations share a bin: they find its run by bisection and take the elements of the
// run in turn.
var<workgroup> sums: array<f32, ${WG}>;

// The number of keys below this key.
fn keys_below(key: u32) -> u32 {
  var low = 0u;
  var high = p.length;
  while (low < high) {
    let middle = (low + high) >> 1u;
    let below = keys_load(p.keys_off + middle) < key;
    low = select(low, middle + 1u, below);
    high = select(middle, high, below);
  }
  return low;
}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let lane = li & (lanes - 1u);
  let bin = g * (${WG}u >> p.lane_bits) + (li >> p.lane_bits);
  // An index out of range has the key p.bins.
  let begin = keys_below(min(bin, p.bins));
  let end = keys_below(min(bin + 1u, p.bins));
  var sum = 0.0f;
  for (var i = begin + lane; i < end; i += ${UNROLL}u * lanes) {
//% for k in range(UNROLL)
    let at${k} = items_load(p.items_off + min(i + ${k}u * lanes, end - 1u));
//% endfor
//% for k in range(UNROLL)
    let w${k} = weights_load(p.weights_off + at${k} * p.weights_ns);
//% endfor
    let w = (w0 + select(0.0f, w1, i + lanes < end))
      + (select(0.0f, w2, i + 2u * lanes < end) + select(0.0f, w3, i + 3u * lanes < end));
    sum += w;
  }
  sums[li] = sum;
  for (var d = lanes >> 1u; d > 0u; d >>= 1u) {
    workgroupBarrier();
    if (lane < d) { sums[li] += sums[li + d]; }
  }
  if ((lane == 0u) & (bin < p.bins)) { dst_store(p.dst_off + bin * p.dst_ns, sums[li]); }
}
