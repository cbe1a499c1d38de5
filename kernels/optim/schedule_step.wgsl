// /// kernel
// doc = """
// The next number of a schedule: count grows by `advance`, and value becomes the schedule's number at
// count.
//
// A row of table is a segment: start, kind, first, last, length, logarithm. The last row whose start is
// at most count gives the value. With u = (count - start) / length, clamped to [0, 1], the value of kind
// 0 is first + (last - first) u, of kind 1 last + (first - last) (1 + cos(pi u)) / 2 (half a cosine), and
// of kind 2 first e^(logarithm (count - start))."""
// inputs.table = { dtype = "f32", index = false, axes = "n k", doc = "(segments, 6), starts in order, the first of them 0." }
// outputs.count = { dtype = "i32", in_place = true, index = false, doc = "One element." }
// outputs.value = { dtype = "f32", index = false, doc = "One element." }
// params.rows = { type = "u32", value = "table.shape[0]" }
// params.advance = { type = "u32", default = true, doc = "True if the count grows." }
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

// sin(pi x) for |x| up to 1/2; the error of the driver's own sine is up to 2^-11.
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
