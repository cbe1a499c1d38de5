// /// kernel
// doc = "Add the sums of runs of equal keys to dst. Runs that are cut between pieces of a long row become a shorter row."
// part_of = "scatter_add"
// configs.tile2048 = { PER = 8, threads = 256 }
// axes."FIRST LAST" = [false, true]
// axes.TILE = { values = "configs", pick = "'tile2048'" }
// inputs.keys = { dtype = "u32" }
// inputs.order = { dtype = "i32", when = "FIRST", optional = true, doc = "The positions of the keys' values; if it is missing, these are the positions of the keys" }
// inputs.values = { dtype = "f32" }
// outputs.next_keys = { dtype = "u32", when = "not LAST", optional = true, doc = "Two elements for each piece" }
// outputs.next_values = { dtype = "f32", when = "not LAST", optional = true }
// outputs.dst = { dtype = "f32" }
// iterate = "rows"
// params.length = { type = "u32", value = "keys.shape[-1]" }
// params."pieces lane_bits" = { type = "u32" }
// params.limit = { type = "u32", value = "dst.shape[-1]" }
// uses = ["scan"]
// grid = "pieces * cdiv(it.rows, CFG.threads >> lane_bits)"
// ///

//% set PER, WG = CFG.PER, CFG.threads
// 2^lane_bits invocations take a row, or a piece of a row; each takes PER neighbouring keys. Keys
// ascend. A run that lies in one invocation is added to dst by this invocation. The sum of a run
// over several invocations comes from a scan that starts again with each run. The first and the
// last run of a piece may continue in other pieces, so each of them becomes an element of the next
// row.

// A flag that says if a run begins in this invocation, and the bits of the sum of its last run.
alias Sum = vec2<u32>;
fn combine(a: Sum, b: Sum) -> Sum {
  let both = bitcast<u32>(bitcast<f32>(a.y) + bitcast<f32>(b.y));
  return Sum(a.x | b.x, select(both, b.y, b.x == 1u));
}
fn neutral() -> Sum { return Sum(0u, 0x80000000u); }
${scan.memory(WG, WG, 1)}

fn add(row: u32, key: u32, sum: f32) {
  if (key < p.limit) {
    let d = dst_at(dst_row(row), key);
    dst_store(d, dst_mem[d] + sum);
  }
}
//% if not LAST

fn put(row: u32, c: u32, key: u32, sum: f32) {
  next_keys_store(next_keys_at(next_keys_row(row), c), key);
  next_values_store(next_values_at(next_values_row(row), c), sum);
}
//% endif

// Finishes a run that ends before the piece ends.
fn end_run(row: u32, piece: u32, first_key: u32, key: u32, sum: f32) {
//% if LAST
  add(row, key, sum);
//% else
  if (key == first_key) { put(row, 2u * piece, key, sum); } else { add(row, key, sum); }
//% endif
}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let lane = li & (lanes - 1u);
  let block = g / p.pieces;
  let piece = g - block * p.pieces;
  let own_row = block * (${WG}u >> p.lane_bits) + (li >> p.lane_bits);
  let row = min(own_row, p.rows - 1u);
  let keys = keys_row(row);
  let values = values_row(row);
//% if FIRST
  let order = order_row(row);
//% endif
  // All loads are at clamped positions; elements after the end of the row belong to its last run
  // and add nothing.
  let start = piece * ${PER * WG}u;
  let first = start + lane * ${PER}u;
  let end = p.length - 1u;
//% for k in range(PER)
  let c${k} = min(first + ${k}u, end);
  let k${k} = keys_load(keys_at(keys, c${k}));
  let at${k} = ${"u32(order_load(order_at(order, c" ~ k ~ ")))" if FIRST else "c" ~ k};
//% endfor
  let first_key = keys_load(keys_at(keys, start));
  let key_before = keys_load(keys_at(keys, min(max(first, 1u) - 1u, end)));
//% for k in range(PER)
  let loaded${k} = values_load(values_at(values, at${k}));
  let v${k} = select(-0.0f, loaded${k}, first + ${k}u <= end);
//% endfor
  let is_row = own_row < p.rows;
  var sum = v0;
  var sum_of_first = v0;
  var runs = 1u;
//% for k in range(1, PER)
  if (k${k} != k${k - 1}) {
    if (runs == 1u) { sum_of_first = sum; }
    if ((runs > 1u) & is_row) { add(row, k${k - 1}, sum); }
    runs += 1u;
    sum = v${k};
  } else {
    sum += v${k};
  }
//% endfor
  let begins = (lane == 0u) | (key_before != k0);
  let several = runs > 1u;
  ${scan.lanes("Sum(u32(begins | several), bitcast<u32>(sum))", "before", WG)}
  let carry = bitcast<f32>(before.y);
  if (!is_row) { return; }
  if (begins & (lane > 0u)) { end_run(row, piece, first_key, key_before, carry); }
  if (several) { end_run(row, piece, first_key, k0, select(carry + sum_of_first, sum_of_first, begins)); }
  if (lane == lanes - 1u) {
    let total = select(carry + sum, sum, begins | several);
    let key = k${PER - 1};
//% if LAST
    add(row, key, total);
//% else
    // If the piece is a single run, its second element is a sum of 0.
    if (key == first_key) { put(row, 2u * piece, key, total); }
    put(row, 2u * piece + 1u, key, select(total, -0.0f, key == first_key));
//% endif
  }
}
