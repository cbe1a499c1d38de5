// /// kernel
// doc = """
// Softmax over the last axis: softmax(x * scale + slope * mask), computed in f32.
//
// `mask` (f32 or f16) repeats to the shape of x by numpy's rules. Along a leading axis it may also
// repeat several times, if its size divides x's size (ggml). A column whose mask is -inf is
// skipped, whatever x is; a row without other columns is 0 (log_softmax: -inf). A row is NaN if its
// other logits are all -inf, or if one of them is NaN or +inf. `dst` may be `x`."""
// source = "Milakov and Gimelshein 2018 (online form, for long rows); ALiBi: Press et al. 2021"
// configs.row4 = { LANES = 4, N = 1 }
// configs.row16 = { LANES = 4, N = 4 }
// configs.row32 = { LANES = 8, N = 4 }
// configs.row64 = { LANES = 16, N = 4 }
// configs.row128 = { LANES = 32, N = 4 }
// configs.row256 = { LANES = 64, N = 4 }
// configs.row512 = { LANES = 128, N = 4 }
// configs.row1024 = { LANES = 256, N = 4 }
// configs.row4096 = { LANES = 256, N = 16 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.MASK = { values = ["", "f32", "f16"], pick = "dtype(mask)" }
// axes.VEC = { values = [1, 4], pick = "4 if it.vec(4) else 1" }
// axes.LENGTH = "configs"
// axes.SG = { values = [false, true], pick = "caps.subgroups and CFG.N == 16" }
// axes.WG = { values = [256], pick = "256" }
// when = ["not SG or CFG.N == 16"]
// subgroups = "SG"
// inputs.x = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs.mask = { dtype = "MASK", vec = "VEC", when = "MASK != ''", optional = true, broadcast = "x" }
// inputs.sinks = { dtype = "f32", optional = true, index = false, doc = "One extra logit for each head (axis -3), which counts in the sum and has no output." }
// outputs.dst = { dtype = "T", vec = "VEC", like = "x", alias = "x" }
// axis = { moves = ["x", "mask"], last_only = ["sinks", "max_bias"] }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params.per_group = { type = "u32", value = "WG // CFG.LANES" }
// params.lanes_apart = { type = "u32", value = "1 if it.columns_apart('x') else 0" }
// params."head_rows heads first_head alibi_heads" = { type = "u32" }
// params.sink_step = { type = "u32", value = "(sinks.strides[0] // 4 if sinks else 0) & 0xffffffff" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of x." }
// params.max_bias = { type = "f32", default = 0.0, doc = "For ALiBi: 8 is usual, 0 is no ALiBi (slope 1). Heads are axis -3." }
// params.log = { type = "u32", default = false, doc = "Return the logarithm." }
// wrappers.log_softmax = { log = true, doc = "The logarithm of the softmax over the last axis, computed in f32; arguments are the same as in `softmax`." }
// operations = "(6 if mask is None else 8) * x.size"
// uses = ["logits", "reduce", "tile/mask"]
// grid = "cdiv(it.rows, WG // CFG.LANES)"
// ///

//% set LANES, N = CFG.LANES, CFG.N
// LANES invocations hold one row in registers, N vectors each, so there is one read and one write.
// If rows lie closer together than columns, neighbouring invocations take neighbouring rows.
${logits.functions(VEC)}
${mask.alibi_slope("row: u32", "p.first_head + (row / p.head_rows) % p.heads")}
${reduce.memory(LANES, WG, SG)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32,
//% if SG
        @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32,
        @builtin(subgroup_invocation_id) subgroup_lane: u32, @builtin(subgroup_size) subgroup_width: u32,
//% endif
) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
//% if LANES == WG
  let lane = li;
  let slot = li;
  let row = g;
//% else
  let apart = p.lanes_apart == 1u;
  let lane = select(li % ${LANES}u, li / (WG / ${LANES}u), apart);
  let inside = select(li / ${LANES}u, li % (WG / ${LANES}u), apart);
  let slot = inside * ${LANES}u + lane;
  let own_row = g * p.per_group + inside;
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
//% endif
  let x_base = x_row(row);
//% if MASK
  let mask_base = mask_row(row);
  let slope = alibi_slope(row);
//% endif
  ${logits.load(N, "lane", LANES, MASK, VEC)}
  ${reduce.lanes("m", "max", LANES, SG)}
  let row_max = m;
  var lost = bitcast<u32>(row_max) == PLUS_INF;
  m = finite(m);
  var sink = 0.0f;
  if (p.has_sinks == 1u) {
    sink = sinks_load(p.sinks_off + (p.first_head + (row / p.head_rows) % p.heads) * p.sink_step);
    lost |= is_bad(sink);
    m = max(m, sink);
  }

//% for k in range(N)
  let e${k} = exp_shifted(l${k} - V(m));
//% endfor
//% for k in range(N)
  let acc${k} = ${"e0" if k == 0 else "acc" ~ (k - 1) ~ " + e" ~ k};
//% endfor
  var row_sum = ${logits.vector_sum("acc" ~ (N - 1), VEC)};
  ${logits.unnormalized(N)}
  ${reduce.lanes("row_sum", "+", LANES, SG, again=true)}
  if (p.has_sinks == 1u) { row_sum += exp_shifted(V(sink - m))${"[0]" if VEC == 4 else ""}; }

//% if LANES != WG
  if (own_row >= p.rows) { return; }
//% endif
  lost |= (row_sum == 0.0f) & (bitcast<u32>(row_max) != MINUS_INF);
  let dst_base = dst_row(row);
  ${logits.store(N, "lane", LANES, VEC)}
}
