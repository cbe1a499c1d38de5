// /// kernel
// doc = "The rows of mul_mat_id sorted by expert, and its tiles: expert, first row, number of rows."
// part_of = "mul_mat_id"
// configs.one = { threads = 256, EXPERTS = 1024 }
// axes.SHARE = "configs"
// pick.SHARE = "'one'"
// inputs.ids = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, axes = "r" }
// outputs.table = { dtype = "u32", axes = "i", doc = "Four words for each tile, then the sorted rows" }
// params.rows = { type = "u32" }
// params.tiles_n = { type = "u32" }
// params.tile_rows = { type = "u32" }
// params.experts = { type = "u32" }
// params.first_expert = { type = "u32" }
// params.limit = { type = "u32" }
// params.index_words = { type = "u32", value = "ids.dtype.itemsize // 4" }
// faults = true
// uses = ["indices"]
// grid = "1"
// ///

// One workgroup counts the rows of `experts` experts from `first_expert` on, sums up the counts, and
// gives each row its place. The order of an expert's rows is not fixed, but the product does not depend
// on it. Unused tiles have no rows.
var<workgroup> counts: array<atomic<u32>, ${CFG.EXPERTS}>;

fn store_tile(t: u32, expert: u32, first: u32, count: u32) {
  let at = p.table_off + 4u * t * p.table_is;
  table_store(at, expert);
  table_store(at + p.table_is, first);
  table_store(at + 2u * p.table_is, count);
}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  if (id >= p.groups) { return; }
  fault_started((id | li) == 0u);
  for (var e = li; e < ${CFG.EXPERTS}u; e += ${CFG.threads}u) { atomicStore(&counts[e], 0u); }
  workgroupBarrier();
  for (var r = li; r < p.rows; r += ${CFG.threads}u) {
    let word = (p.ids_off + r * p.ids_rs) * p.index_words;
    let lo = ids_mem[word];
    let hi = ids_mem[word + p.index_words - 1u];
    if (${indices.is_inside("lo", "hi")}) {
      let e = lo - p.first_expert;
      if (e < p.experts) { atomicAdd(&counts[min(e, ${CFG.EXPERTS - 1}u)], 1u); }
    } else {
      ${indices.report("r", "lo", "hi")}
    }
  }
  workgroupBarrier();
  // The first row of each of this invocation's experts.
//% for u in range(CFG.EXPERTS // CFG.threads)
  var first${u} = 0u;
//% endfor
  var rows = 0u;
  var tile = 0u;
  for (var e = 0u; e < p.experts; e += 1u) {
    let n = atomicLoad(&counts[min(e, ${CFG.EXPERTS - 1}u)]);
//% for u in range(CFG.EXPERTS // CFG.threads)
    if (e == li + ${u * CFG.threads}u) {
      first${u} = rows;
      for (var i = 0u; i < n; i += p.tile_rows) {
        store_tile(tile + i / p.tile_rows, e, rows + i, min(n - i, p.tile_rows));
      }
    }
//% endfor
    rows += n;
    tile += (n + p.tile_rows - 1u) / p.tile_rows;
  }
  for (var t = tile + li; t < p.tiles_n; t += ${CFG.threads}u) { store_tile(t, 0u, 0u, 0u); }
  workgroupBarrier();  // the counts have been read: from here on they are places
//% for u in range(CFG.EXPERTS // CFG.threads)
  atomicStore(&counts[min(li + ${u * CFG.threads}u, ${CFG.EXPERTS - 1}u)], first${u});
//% endfor
  workgroupBarrier();
  for (var r = li; r < p.rows; r += ${CFG.threads}u) {
    let word = (p.ids_off + r * p.ids_rs) * p.index_words;
    let lo = ids_mem[word];
    let hi = ids_mem[word + p.index_words - 1u];
    let e = lo - p.first_expert;
    if ((${indices.is_inside("lo", "hi")}) & (e < p.experts)) {
      let at = 4u * p.tiles_n + atomicAdd(&counts[min(e, ${CFG.EXPERTS - 1}u)], 1u);
      table_store(p.table_off + at * p.table_is, r);
    }
  }
}
