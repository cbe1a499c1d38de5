// /// kernel
// doc = """
// A number of the next step of a schedule: count grows by `advance`, and value becomes that of count.
//
// The last row of table whose first number is at most count gives the value: start, kind, first,
// last, length, logarithm. With u = (count - start) / length, held to [0, 1], it is for kind 0
// first + (last - first) u; for kind 1 the same along half a cosine, last + (first - last)
// (1 + cos(pi u)) / 2; for kind 2 first e^(logarithm (count - start))."""
// inputs.table = { dtype = "f32", index = false, axes = "n k", doc = "(segments, 6), starts in order, the first of them 0." }
// outputs.count = { dtype = "i32", in_place = true, index = false, doc = "One element." }
// outputs.value = { dtype = "f32", index = false, doc = "One element." }
// params.rows = { type = "u32", value = "table.shape[0]" }
// params.advance = { type = "u32", default = true, doc = "Does the count grow?" }
// uses = ["exponentials"]
// bytes = "table.nbytes + 12"
// operations = "40"
// grid = "1"
// ///

// One invocation.
alias V = f32;
alias U = u32;
alias I = i32;
${exponentials.accurate_exp()}

fn entry(row: u32, column: u32) -> f32 {
  return table_load(p.table_off + row * p.table_ns + column * p.table_ks);
}

// sin(pi x) for |x| to 1/2: the driver's own is within 2^-11.
fn half_turn(x: f32) -> f32 {
  let y = 3.14159265f * x;
  let s = y * y;
  var q = -2.5052108e-8f * s + 2.7557319e-6f;
  q = q * s - 1.9841270e-4f;
  q = q * s + 8.3333333e-3f;
  q = q * s - 1.6666667e-1f;
  return y + y * s * q;
}

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) wg: vec3<u32>) {
  if (group_id(wg) >= p.groups) { return; }
  let count = count_mem[p.count_off] + i32(p.advance);
  count_mem[p.count_off] = count;
  let t = f32(count);
  var row = 0u;
  for (var i = 1u; i < p.rows; i++) {
    if (entry(i, 0u) <= t) { row = i; }
  }
  let since = t - entry(row, 0u);
  let first = entry(row, 2u);
  let last = entry(row, 3u);
  let share = clamp(since / entry(row, 4u), 0.0f, 1.0f);
  let kind = entry(row, 1u);
  var found = first + (last - first) * share;
  if (kind == 1.0f) {
    found = last + (first - last) * (0.5f + 0.5f * half_turn(0.5f - share));
  } else if (kind == 2.0f) {
    found = first * accurate_exp(entry(row, 5u) * since);
  }
  value_store(p.value_off, found);
}
