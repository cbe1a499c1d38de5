// /// kernel
// doc = "Moves keys and their items to their places, sorted by one digit of four bits; the sort is stable."
// part_of = "sort"
// configs.tile2048 = { PER = 8, threads = 256 }
// axes.TILE = { values = "configs", pick = "'tile2048'" }
// axes.ADDS = [false, true]
// inputs."keys items" = { dtype = "*", bind = "'vec4<u32>'", index = false, doc = "(rows, padded)" }
// inputs.running = { dtype = "u32", index = false, doc = "(rows, 16 * tiles): running sums of the counts; with ADDS the counts, which the workgroup sums up" }
// outputs."keys_out items_out" = { dtype = "u32", index = false }
// iterate = "none"
// params."tiles shift by_place last" = { type = "u32" }
// uses = ["radix", "scan"]
// grid = "keys.size // (CFG.PER * CFG.threads)"
// ///

//% set PER, WG = CFG.PER, CFG.threads
// One workgroup takes a tile and sorts it by the digit in workgroup memory first, so that
// neighbouring invocations write to neighbouring places.
${radix.memory()}
alias Sum = u32;
fn combine(a: u32, b: u32) -> u32 { return a + b; }
fn neutral() -> u32 { return 0u; }
${scan.memory(WG, WG, 1)}
var<workgroup> starts: array<u32, 16>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lane = li;
  ${radix.count()}
  // The items that move with the keys; in the first pass the item is the position, which is not in
  // memory yet.
  let row = g / p.tiles;
  let position = (g - row * p.tiles) * ${PER * WG}u + li * ${PER}u;
//% for v in range(PER // 4)
  var items${v} = vec4<u32>(0u, 1u, 2u, 3u) + (position + ${4 * v}u);
//% endfor
  if (p.by_place == 0u) {
    let first_item = (p.items_off >> 2u) + g * ${PER * WG // 4}u + li * ${PER // 4}u;
//% for v in range(PER // 4)
    items${v} = items_mem[first_item + ${v}u];
//% endfor
  }
  // For d below 16, `begin` of lane d is the first place for this tile's keys with digit d; it is
  // loaded early, so that nothing waits for it.
//% if ADDS
  // For each digit, 16 lanes take the tiles in turn; they add up the counts of the digit in all
  // tiles, and in the tiles before this tile.
  let tile = g - row * p.tiles;
  let counts = p.running_off + (row * 16u + (li >> 4u)) * p.tiles;
  var in_all = 0u;
  var in_front = 0u;
  for (var t = li & 15u; t < p.tiles; t += 64u) {
//% for k in range(4)
    let n${k} = running_load(counts + min(t + ${16 * k}u, p.tiles - 1u));
//% endfor
//% for k in range(4)
    in_all += select(0u, n${k}, t + ${16 * k}u < p.tiles);
    in_front += select(0u, n${k}, t + ${16 * k}u < tile);
//% endfor
  }
  lane_a[(li & 15u) * 16u + (li >> 4u)] = in_all;
  lane_b[(li & 15u) * 16u + (li >> 4u)] = in_front;
  workgroupBarrier();
  var begin = row * p.tiles * ${PER * WG}u;
  if (li < 16u) {
    in_all = 0u;
//% for k in range(16)
    in_all += lane_a[li + ${16 * k}u];
    begin += lane_b[li + ${16 * k}u];
//% endfor
    starts[li] = in_all;
  }
  workgroupBarrier();
  if (li < 16u) {
//% for k in range(15)
    begin += select(0u, starts[${k}], li > ${k}u);
//% endfor
  }
//% else
  let at = (li & 15u) * p.tiles + (g - row * p.tiles);
  let in_row = running_load(p.running_off + row * 16u * p.tiles + max(at, 1u) - 1u);
  let begin = row * p.tiles * ${PER * WG}u + select(in_row, 0u, at == 0u);
//% endif
  workgroupBarrier();
  // The counts are in the order of digits, then of lanes; each lane adds up eight counts.
//% for k in range(8)
  let w${k} = cells[cell(8u * li + ${k}u)];
//% endfor
  var total = 0u;
  ${scan.lanes("((w0 + w1) + (w2 + w3)) + ((w4 + w5) + (w6 + w7))", "before", WG, "total")}
//% for k in range(8)
  cells[cell(8u * li + ${k}u)] = before;
  before += w${k};
//% endfor
  workgroupBarrier();
  let lower = total & 0xffffu;  // keys with a digit below 8
//% for k in range(PER)
  let count${k} = cells[cell((d${k} & 7u) * ${WG}u + li)];
  let to${k} = rank${k} + select(count${k} & 0xffffu, lower + (count${k} >> 16u), up${k});
//% endfor
  if (li < 16u) {
    let count = cells[cell((li & 7u) * ${WG}u)];
    let own = select(count & 0xffffu, lower + (count >> 16u), li >= 8u);
    starts[li] = begin - own;
  }
  workgroupBarrier();
//% for k in range(PER)
  cells[to${k}] = k${k};
//% endfor
  workgroupBarrier();
//% for k in range(PER)
  let key${k} = cells[li + ${k * WG}u];
  let place${k} = starts[(key${k} >> p.shift) & 15u] + li + ${k * WG}u;
  if (p.last == 0u) { keys_out_store(p.keys_out_off + place${k}, key${k}); }
//% endfor
  workgroupBarrier();
//% for k in range(PER)
  cells[to${k}] = items${k // 4}[${k % 4}];
//% endfor
  workgroupBarrier();
//% for k in range(PER)
  items_out_store(p.items_out_off + place${k}, cells[li + ${k * WG}u]);
//% endfor
}
