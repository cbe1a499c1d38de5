// /// kernel
// doc = "Add integers to the positions along one axis that an index gives, by atomic additions."
// part_of = "scatter_add"
// configs.each16 = { UNROLL = 16, threads = 256 }
// axes.SHARE = { values = "configs", pick = "'each16'" }
// inputs.src = { dtype = "*", bind = "'u32'" }
// inputs.index = { dtype = "*", bind = "'u32'", readonly = true }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>'", over = "dst.with_layout(src.shape, dst.strides[:-1])" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params.limit = { type = "u32" }
// params.pitch = { type = "u32", value = "dst.strides[-1] // dst.dtype.itemsize % (1 << 32)" }
// iterate = "nd"
// faults = true
// uses = ["indices"]
// grid = "cdiv(it.total, CFG.UNROLL * CFG.threads)"
// ///

//% set WG, UNROLL = CFG.threads, CFG.UNROLL
// An invocation takes UNROLL elements that lie a workgroup apart. It first adds successive elements
// with the same place, so that with an index of equal numbers not every element waits for the same
// word. The plan makes the picked axis the last axis of dst.
@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let first = g * ${WG * UNROLL}u + li;
  let last = p.total - 1u;
  // All loads come first, at clamped positions, because loads in branches would wait for each
  // other.
//% for k in range(UNROLL)
  let e${k} = min(first + ${k * WG}u, last);
  let i${k} = index_index(e${k}) * p.index_words;
  let lo${k} = index_mem[i${k}];
  let hi${k} = index_mem[i${k} + p.index_words - 1u];
  let x${k} = src_mem[src_index(e${k})];
//% endfor
  var place = 0u;
  var sum = 0u;
//% for k in range(UNROLL)
  if (first + ${k * WG}u <= last) {
    if (${indices.is_inside("lo" ~ k, "hi" ~ k)}) {
      let d = dst_index(e${k}) + lo${k} * p.pitch;
      if ((d != place) & (sum != 0u)) { atomicAdd(&dst_mem[place], sum); }
      sum = select(x${k}, sum + x${k}, d == place);
      place = d;
    } else {
      ${indices.report("e" ~ k, "lo" ~ k, "hi" ~ k)}
    }
  }
//% endfor
  if (sum != 0u) { atomicAdd(&dst_mem[place], sum); }
}
