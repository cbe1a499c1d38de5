// /// kernel
// doc = "Add the sums of a list's runs of equal keys to dst; what its pieces cut becomes a shorter list."
// part_of = "scatter_add"
// axes.T = ["f32", "i32", "u32"]
// axes.FIRST = [false, true]
// axes.LAST = [false, true]
// axes.WG = [256]
// pick.T = "dtype(dst)"
// pick.WG = "256"
// inputs.keys = { dtype = "i32" }
// inputs.order = { dtype = "i32", when = "FIRST", optional = true }
// inputs.values = { dtype = "T" }
// outputs.next_keys = { dtype = "i32", when = "not LAST", optional = true }
// outputs.next_values = { dtype = "T", when = "not LAST", optional = true }
// outputs.dst = { dtype = "T" }
// params.length = { type = "u32", value = "keys.shape[-1]" }
// params.pieces = { type = "u32" }
// params.limit = { type = "u32", value = "dst.shape[-1]" }
// iterate = "rows"
// grid = "cdiv(it.rows * pieces, WG)"
// ///

// One invocation per piece of 32 elements of a row. The keys ascend; for the call's own list they do so
// through `order`. A run inside a piece is added to dst. The first and last run may continue in other
// pieces, so both become an element of the next list; a single run becomes its sum and a zero.
fn add(row: u32, key: u32, sum: ${T}) {
  if (key < p.limit) {
    let d = dst_at(dst_row(row), key);
    dst_store(d, dst_mem[d] + sum);
  }
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg) * WG + li;
  let row = g / p.pieces;
  if (row >= p.rows) { return; }
  let piece = g - row * p.pieces;
  let keys = keys_row(row);
  let values = values_row(row);
//% if FIRST
  let order = order_row(row);
//% endif
  let end = min(piece * 32u + 32u, p.length);
  var key = 0u;
  var sum = ${T}();
  var first_key = 0u;
  var first_sum = ${T}();
  var runs = 0u;
  for (var i = piece * 32u; i < end; i += 1u) {
//% if FIRST
    let at = u32(order_load(order_at(order, i)));
//% else
    let at = i;
//% endif
    let k = u32(keys_load(keys_at(keys, at)));
    let v = values_load(values_at(values, at));
    if (runs > 0u && k == key) {
      sum += v;
    } else {
      if (runs == 1u) {
        first_key = key;
        first_sum = sum;
      } else if (runs > 1u) {
        add(row, key, sum);
      }
      runs += 1u;
      key = k;
      sum = v;
    }
  }
//% if LAST
  if (runs > 1u) { add(row, first_key, first_sum); }
  add(row, key, sum);
//% else
  let next_key = next_keys_row(row);
  let next_value = next_values_row(row);
  // For a single run, the sum comes first, then a zero.
  let single = runs == 1u;
//% set zero = "-0.0f" if T == "f32" else T ~ "()"
  next_keys_store(next_keys_at(next_key, 2u * piece), i32(select(first_key, key, single)));
  next_keys_store(next_keys_at(next_key, 2u * piece + 1u), i32(key));
  next_values_store(next_values_at(next_value, 2u * piece), select(first_sum, sum, single));
  next_values_store(next_values_at(next_value, 2u * piece + 1u), select(sum, ${zero}, single));
//% endif
}
