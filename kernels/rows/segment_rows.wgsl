// /// kernel
// doc = "Add the sums of runs of rows with equal keys to dst. Runs that are cut between pieces of the list form a shorter list."
// part_of = "add_rows"
// axes.T = { values = ["f32", "f16"], pick = "dtype(values)" }
// axes.V = [1, 4]
// axes."FIRST LAST" = [false, true]
// axes.WG = { values = [256], pick = "256" }
// when = ["FIRST or T == 'f32'"]
// inputs.keys = { dtype = "u32", axes = "n" }
// inputs.order = { dtype = "i32", when = "FIRST", optional = true, axes = "n" }
// inputs.values = { dtype = "T", vec = "V", axes = "n k" }
// outputs.next_keys = { dtype = "u32", when = "not LAST", optional = true, axes = "n" }
// outputs.next_values = { dtype = "f32", vec = "V", when = "not LAST", optional = true, axes = "n k" }
// outputs.dst = { dtype = "f32", vec = "V", axes = "m k" }
// params.length = { type = "u32", value = "keys.shape[0]" }
// params.pieces = { type = "u32", value = "cdiv(keys.shape[0], 32)" }
// params.columns = { type = "u32", value = "dst.shape[1]" }
// params.first_row = { type = "u32" }
// params.own_rows = { type = "u32", value = "dst.shape[0]" }
// params.skip = { type = "u32" }
// grid = "cdiv(cdiv(keys.shape[0], 32) * dst.shape[1], WG)"
// ///

// One invocation takes V columns of a piece of 32 rows. The keys are in ascending order; `order`
// gives the places of their values in the list of the call. A run inside a piece is added to dst.
// The first and the last run may continue in other pieces, so both become rows of the next list; a
// piece with a single run gives the run's sum and a row of zeros.
//% set F = "vec4<f32>" if V == 4 else "f32"
//% set AHEAD = 4
fn add(key: u32, column: u32, sum: ${F}) {
  let row = key - p.first_row;
  if ((row < p.own_rows) & (key != p.skip)) {
    let d = p.dst_off + row * p.dst_ms + column * p.dst_ks;
    dst_store(d, dst_mem[d] + sum);
  }
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg) * WG + li;
  let piece = g / p.columns;
  if (piece >= p.pieces) { return; }
  let column = g - piece * p.columns;
  let end = min(piece * 32u + 32u, p.length);
  var key = 0u;
  var sum = ${F}();
  var first_key = 0u;
  var first_sum = ${F}();
  var runs = 0u;
  for (var i = piece * 32u; i < end; i += ${AHEAD}u) {
    // Several rows are loaded at once, at clamped positions, so that loads do not wait for each other.
//% for u in range(AHEAD)
//% if FIRST
    let at${u} = u32(order_load(p.order_off + min(i + ${u}u, end - 1u) * p.order_ns));
//% else
    let at${u} = min(i + ${u}u, end - 1u);
//% endif
    let k${u} = keys_load(p.keys_off + min(i + ${u}u, end - 1u) * p.keys_ns);
    let v${u} = values_load(p.values_off + at${u} * p.values_ns + column * p.values_ks);
//% endfor
//% for u in range(AHEAD)
    if (i + ${u}u < end) {
      let same = (runs > 0u) & (k${u} == key);
      if (!same) {
        if (runs == 1u) {
          first_key = key;
          first_sum = sum;
        }
        if (runs > 1u) { add(key, column, sum); }
        runs += 1u;
      }
      sum = select(v${u}, sum + v${u}, same);
      key = k${u};
    }
//% endfor
  }
//% if LAST
  if (runs > 1u) { add(first_key, column, first_sum); }
  add(key, column, sum);
//% else
  // If the piece is a single run, its second row is 0.
  let single = runs == 1u;
  if (column == 0u) {
    next_keys_store(p.next_keys_off + 2u * piece * p.next_keys_ns, select(first_key, key, single));
    next_keys_store(p.next_keys_off + (2u * piece + 1u) * p.next_keys_ns, key);
  }
  let to = p.next_values_off + 2u * piece * p.next_values_ns + column * p.next_values_ks;
  next_values_store(to, select(first_sum, sum, single));
  next_values_store(to + p.next_values_ns, select(sum, ${F}(-0.0f), single));
//% endif
}
