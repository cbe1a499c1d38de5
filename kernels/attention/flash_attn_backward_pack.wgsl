// /// kernel
// doc = "Packs one input of flash_attn_backward as panels, transposed for the scores and in rows for the sums; both are padded with 0."
// part_of = "flash_attn_backward"
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// inputs.x = { dtype = "T", readonly = true, doc = "(batch, heads, rows, cols)" }
// inputs.stats = { dtype = "f32", index = false, readonly = true, doc = "(heads, padded_rows, 2): lse and delta; if given, rows of queries without a key become 0" }
// outputs.transposed = { dtype = "f32", index = false, doc = "(heads, panel_rows, padded_rows); written from row first_row of a head on" }
// outputs.plain = { dtype = "f32", index = false, optional = true, doc = "(heads, padded_rows, padded_cols)" }
// iterate = "tiles"
// params.rows = { type = "u32", value = "x.shape[-2]" }
// params.cols = { type = "u32", value = "x.shape[-1]" }
// params."padded_rows padded_cols panel_rows first_row" = { type = "u32" }
// params.rows_run = { type = "u32", value = "1 if max(x.strides[-2], -x.strides[-2]) < max(x.strides[-1], -x.strides[-1]) else 0" }
// params.skip_empty = { type = "u32" }
// params.has_plain = { type = "u32", value = "0 if plain is None else 1" }
// params.finite = { type = "u32" }
// grid = "it.batches * cdiv(padded_rows, 32) * cdiv(padded_cols, 32)"
// ///

// One workgroup moves a block of 32 x 32 elements through workgroup memory; neighbouring invocations
// read and write neighbouring elements of x and of both outputs. With `finite`, NaN and infinity in
// rows become 0. A NaN of a hidden key must not turn the zeros of a product into NaN, and a visible
// key with a NaN has already made the scores NaN.
// Rows have 33 elements, so that the elements of a column use different banks.
var<workgroup> block: array<f32, 1056>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let across = (p.padded_cols + 31u) / 32u;
  let per_head = across * ((p.padded_rows + 31u) / 32u);
  let head = g / per_head;
  let tile = g - head * per_head;
  let row0 = tile / across * 32u;
  let col0 = tile % across * 32u;
  let low = li & 31u;
  let high = li >> 5u;
  let start = x_batch(head);
//% for u in range(4)
  let r${u} = select(high + ${8 * u}u, low, p.rows_run == 1u);
  let c${u} = select(low, high + ${8 * u}u, p.rows_run == 1u);
  var v${u} = x_load(x_at(start, min(row0 + r${u}, p.rows - 1u), min(col0 + c${u}, p.cols - 1u)));
//% endfor
//% for u in range(4)
  var gone${u} = (row0 + r${u} >= p.rows) | (col0 + c${u} >= p.cols);
  if (p.skip_empty == 1u) {
    let lse = stats_load(p.stats_off + (head * p.padded_rows + row0 + r${u}) * 2u);
    gone${u} |= bitcast<u32>(lse) == 0x7f800000u;
  }
  block[r${u} * 33u + c${u}] = select(v${u}, 0.0f, gone${u});
//% endfor
  workgroupBarrier();
//% for u in range(4)
  {
    let a = high + ${8 * u}u;
    if (col0 + a < p.padded_cols) {
      let at = (head * p.panel_rows + p.first_row + col0 + a) * p.padded_rows + row0 + low;
      transposed_store(p.transposed_off + at, block[low * 33u + a]);
    }
    if ((p.has_plain == 1u) & (col0 + low < p.padded_cols)) {
      var v = block[a * 33u + low];
      let odd = (bitcast<u32>(v) & 0x7fffffffu) >= 0x7f800000u;
      v = select(v, 0.0f, odd & (p.finite == 1u));
      plain_store(p.plain_off + (head * p.padded_rows + row0 + a) * p.padded_cols + col0 + low, v);
    }
  }
//% endfor
}
