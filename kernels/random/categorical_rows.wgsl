// /// kernel
// doc = "Draw a piece of each row by the sums of the pieces' weights, then a column of the piece."
// part_of = "categorical"
// configs.pieces256 = { threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(logits)" }
// axes.SIZE = { values = "configs", pick = "'pieces256'" }
// inputs.logits = { dtype = "T" }
// inputs.tokens = { dtype = "i32", optional = true }
// inputs.stats = { dtype = "f32", index = false, doc = "(rows, pieces, 2): the output of categorical_sums; up to `threads` pieces" }
// inputs.state = { dtype = "u32", optional = true, index = false, axes = "w", doc = "(6,)" }
// outputs.dst = { dtype = "i32", doc = "(..., 1)" }
// iterate = "rows"
// params.cols = { type = "u32", value = "logits.shape[-1]" }
// params."pieces each first" = { type = "u32" }
// params.has_tokens = { type = "u32", value = "1 if tokens else 0" }
// params.has_state = { type = "u32", value = "1 if state else 0" }
// params."temperature top_p" = { type = "f32", arg = true }
// params.seed = { type = "bits", of = "int64", arg = true }
// uses = ["logits", "philox", "reduce"]
// grid = "it.rows"
// ///

// One workgroup takes one row. First each invocation takes a piece of the row; then it takes `each
// / threads` neighbouring columns of the drawn piece. Rounded running sums do not always ascend. So
// a draw takes the first place with a weight whose running sum is above the drawn number, or else
// the last place with a weight.
//% set WG = CFG.threads
${logits.functions(1)}
${philox.functions()}
${reduce.memory(WG, WG)}
var<workgroup> values: array<f32, ${WG}>;
var<workgroup> sums: array<f32, ${WG // 16}>;
var<workgroup> before_pieces: array<f32, ${WG}>;
var<workgroup> first_above: atomic<u32>;
var<workgroup> last_kept: atomic<u32>;

// `before`: the sum of `value` over the invocations before this one; `total`: its sum over all
// invocations. The order is fixed; 16 values are added at a time.
//% macro prefix(value, before, total)
  workgroupBarrier();  // the last sums have been read
  values[lane] = ${value};
  workgroupBarrier();
  if (lane < ${WG // 16}u) {
    var sum = 0.0f;
    for (var i = 16u * lane; i < 16u * lane + 16u; i += 1u) { sum += values[i]; }
    sums[lane] = sum;
  }
  workgroupBarrier();
  var ${before} = 0.0f;
  var ${total} = 0.0f;
  for (var i = 0u; i < ${WG // 16}u; i += 1u) {
    ${before} = select(${before}, ${total} + sums[i], i < lane / 16u);
    ${total} += sums[i];
  }
  for (var i = lane / 16u * 16u; i < lane; i += 1u) { ${before} += values[i]; }
//% endmacro

// Finishes a draw among places; each invocation has already entered its own place by atomics.
//% macro drawn(name)
  workgroupBarrier();
  let ${name} = min(atomicLoad(&first_above), atomicLoad(&last_kept));
  workgroupBarrier();
  if (lane == 0u) {
    atomicStore(&first_above, 0xffffffffu);
    atomicStore(&last_kept, 0u);
  }
//% endmacro

// A column's weight; 0 after the end of its row or piece.
fn weight(base: u32, c: u32, end: u32, m: f32) -> f32 {
  let x = logits_load(logits_at(base, min(c, p.cols - 1u)));
  return select(0.0f, exp_shifted((x - m) / p.temperature), c < end);
}

// kept_NAME: the weight of this invocation's columns of a piece, without the columns that cannot be
// drawn. A column can be drawn if the sum before it in the piece is below `limit`.
//% macro kept_of(name, piece, limit)
  let start_${name} = ${piece} * p.each + lane * own;
  let end_${name} = min(p.cols, (${piece} + 1u) * p.each);
  var sum_${name} = 0.0f;
  for (var i = 0u; i < own; i += 1u) { sum_${name} += weight(base, start_${name} + i, end_${name}, m); }
  ${prefix("sum_" ~ name, "before_" ~ name, "whole_" ~ name)}
  var kept_${name} = 0.0f;
  {
    var front = before_${name};
    for (var i = 0u; i < own; i += 1u) {
      let w = weight(base, start_${name} + i, end_${name}, m);
      kept_${name} += select(0.0f, w, front < ${limit});
      front += w;
    }
  }
//% endmacro

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_id(wg);
  if (row >= p.groups) { return; }
  let slot = lane;
  let own = p.each / ${WG}u;
  let base = logits_row(row);
  if (lane == 0u) {
    atomicStore(&first_above, 0xffffffffu);
    atomicStore(&last_kept, 0u);
  }

  // The weights of all pieces on a common scale, and `cut`, the last piece that can be drawn.
  let is_piece = lane < p.pieces;
  let at = p.stats_off + (row * p.pieces + min(lane, p.pieces - 1u)) * 2u;
  let own_max = stats_load(at);
  let own_sum = stats_load(at + 1u);
  var m = own_max;
  ${reduce.lanes("m", "max", WG)}
  var bad = select(0.0f, 1.0f, own_sum < 0.0f);
  ${reduce.lanes("bad", "max", WG, again=true)}
  let piece_weight = select(0.0f, own_sum * exp_shifted((own_max - m) / p.temperature), is_piece);
  ${prefix("piece_weight", "pieces_before", "row_sum")}
  before_pieces[lane] = pieces_before;
  let all = p.top_p >= 1.0f;
  let share = p.top_p * row_sum;
  if ((piece_weight > 0.0f) & (all | (pieces_before < share))) { atomicMax(&last_kept, lane); }
  ${drawn("cut")}

  // The weight of the columns of piece `cut` that can be drawn, and from it the weight of all
  // columns that can be drawn.
  let cut_before = before_pieces[cut];
  let limit = select(share - cut_before, 0x1p+126f, all);
  ${kept_of("cut", "cut", "limit")}
  ${reduce.lanes("kept_cut", "+", WG, again=true)}
  let kept_sum = cut_before + kept_cut;

  // The draw of a piece.
  let words = vec2<f32>(draw(p.first + row).xy >> vec2<u32>(8u)) * 0x1p-24f;
  if ((piece_weight > 0.0f) & (lane <= cut)) {
    atomicMax(&last_kept, lane);
    let reached = select(pieces_before + piece_weight, kept_sum, lane == cut);
    if (reached > words.x * kept_sum) { atomicMin(&first_above, lane); }
  }
  ${drawn("piece")}

  // The draw of a column.
  let column_limit = select(0x1p+126f, limit, piece == cut);
  ${kept_of("own", "piece", "column_limit")}
  ${prefix("kept_own", "kept_before", "kept_whole")}
  var front = before_own;
  var above = kept_before;
  for (var i = 0u; i < own; i += 1u) {
    let w = weight(base, start_own + i, end_own, m);
    if ((w > 0.0f) & (front < column_limit)) {
      above += w;
      atomicMax(&last_kept, start_own + i);
      if (above > words.y * kept_whole) { atomicMin(&first_above, start_own + i); }
    }
    front += w;
  }
  ${drawn("column")}
  if (lane == 0u) {
    let c = min(column, p.cols - 1u);
    var found = i32(c);
    if (p.has_tokens == 1u) { found = tokens_load(tokens_at(tokens_row(row), c)); }
    dst_store(dst_at(dst_row(row), 0u), select(found, -1, (bad > 0.0f) | !(row_sum > 0.0f)));
  }
}
