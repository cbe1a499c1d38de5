// /// kernel
// doc = "The sort key of each element, and its bits if they move with the key; rows are filled up to whole tiles."
// part_of = "sort"
// configs.each4 = { UNROLL = 4, threads = 256 }
// axes.S = { values = [1, 2, 4], pick = "x.dtype.itemsize" }
// axes.SHARE = { values = "configs", pick = "'each4'" }
// inputs.x = { dtype = "*", bind = "'u32'" }
// outputs.keys = { dtype = "u32", index = false, doc = "(rows, padded)" }
// outputs.items = { dtype = "u32", index = false, doc = "(rows, padded): bits" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols" }
// params."padded of_bits" = { type = "u32" }
// params.kind = { type = "u32", value = "2 if x.dtype.kind == 'f' else 1 if x.dtype.kind == 'i' else 0" }
// params.infinity = { type = "u32", value = "0x7f800000 if S == 4 else 0x7f80 if dtype(x) == 'bf16' else 0x7c00" }
// params.descending = { type = "u32" }
// uses = ["order", "words"]
// grid = "it.rows * (padded // (CFG.UNROLL * CFG.threads))"
// ///

//% set WG, UNROLL = CFG.threads, CFG.UNROLL
// Each invocation takes UNROLL elements of one row that lie a workgroup apart.
${order.functions(S)}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let blocks = p.padded / ${WG * UNROLL}u;
  let row = g / blocks;
  let first = (g - row * blocks) * ${WG * UNROLL}u + li;
  let x_base = x_row(row);
//% for k in range(UNROLL)
  let c${k} = first + ${k * WG}u;
  let s${k} = x_at(x_base, min(c${k}, p.cols - 1u));
  let b${k} = ${words.bits("x_mem", S, "s" ~ k)};
//% endfor
  let base = row * p.padded;
//% for k in range(UNROLL)
  keys_store(p.keys_off + base + c${k}, select(0xffffffffu, order_of(b${k}), c${k} < p.cols));
  if (p.of_bits == 1u) { items_store(p.items_off + base + c${k}, b${k}); }
//% endfor
}
