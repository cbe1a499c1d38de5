// /// kernel
// doc = "The count of each digit of four bits in each tile of keys."
// part_of = "sort"
// configs.tile2048 = { PER = 8, threads = 256 }
// axes.TILE = { values = "configs", pick = "'tile2048'" }
// inputs.keys = { dtype = "*", bind = "'vec4<u32>'", index = false, doc = "(rows, padded)" }
// outputs.table = { dtype = "u32", index = false, doc = "(rows, 16, tiles)" }
// iterate = "none"
// params."tiles shift" = { type = "u32" }
// uses = ["radix"]
// grid = "keys.size // (CFG.PER * CFG.threads)"
// ///

// One workgroup takes a tile, with PER keys for each invocation.
${radix.memory()}
var<workgroup> sums: array<u32, ${CFG.threads}>;

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${radix.count()}
  workgroupBarrier();
  // Each word of counts has a value from each of ${CFG.threads} lanes; they are added eight, then
  // four, then eight at a time.
  var sum = cells[cell(8u * li)];
//% for k in range(1, 8)
  sum += cells[cell(8u * li + ${k}u)];
//% endfor
  sums[li] = sum;
  workgroupBarrier();
  if (li < 64u) { sum = (sums[4u * li] + sums[4u * li + 1u]) + (sums[4u * li + 2u] + sums[4u * li + 3u]); }
  workgroupBarrier();
  sums[li] = sum;
  workgroupBarrier();
  if (li < 16u) {
    let word = (li & 7u) * 8u;
    var count = 0u;
//% for k in range(8)
    count += sums[word + ${k}u];
//% endfor
    let row = g / p.tiles;
    table_store(p.table_off + (row * 16u + li) * p.tiles + (g - row * p.tiles), select(count & 0xffffu, count >> 16u, li >= 8u));
  }
}
