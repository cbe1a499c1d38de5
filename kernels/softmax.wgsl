// /// kernel
// doc = """
// Softmax over the last axis: softmax(x * scale + slope * mask), computed in f32.
//
// `mask` (f32 or f16) repeats to the shape of x: over leading axes by numpy's rules, or by modulo
// where its size divides x's (ggml). A key whose mask is -inf is skipped whatever its x is; a row
// with no key left is 0 (log_softmax: -inf). A row whose allowed logits are all -inf, or contain
// NaN or +inf, is NaN. `dst` may be `x`."""
// source = "Milakov and Gimelshein 2018 (online form, for long rows); ALiBi: Press et al. 2021"
// axes.T = ["f32", "f16"]
// axes.MASK = ["", "f32", "f16"]
// axes.VEC = [1, 4]
// axes.LANES = [8, 32, 256]
// axes.N = [1, 4, 16]
// axes.WG = [256]
// pick.T = "dtype(x)"
// pick.MASK = "dtype(mask)"
// pick.VEC = "4 if it.vec(4) else 1"
// pick.WG = "256"
// when = ["(LANES, N) in ((8, 1), (32, 1), (32, 4), (256, 4), (256, 16))"]
// inputs.x = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs.mask = { dtype = "MASK", vec = "VEC", when = "MASK != ''", optional = true, broadcast = "x" }
// inputs.sinks = { dtype = "f32", optional = true, index = false, doc = "One extra logit per head (axis -3), counted in the sum, without an output." }
// outputs.dst = { dtype = "T", vec = "VEC", like = "x", alias = "x" }
// axis = { moves = ["x", "mask"], last_only = ["sinks", "max_bias"] }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params.per_group = { type = "u32", value = "WG // LANES" }
// params.lanes_apart = { type = "u32", value = "1 if it.columns_apart('x') else 0" }
// params.head_rows = { type = "u32" }
// params.heads = { type = "u32" }
// params.alibi_heads = { type = "u32" }
// params.sink_step = { type = "u32", value = "sinks.strides[0] // 4 if sinks else 0" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of x." }
// params.max_bias = { type = "f32", default = 0.0, doc = "ALiBi: 8 is usual; 0 is none (slope 1). Head: axis -3." }
// params.log = { type = "u32", default = false, doc = "Return the logarithm." }
// wrappers.log_softmax = { log = true, doc = "Logarithm of the softmax over the last axis, computed in f32; arguments as in `softmax`." }
// uses = ["logits", "reduce"]
// grid = "cdiv(it.rows, WG // LANES)"
// ///

// LANES invocations hold one row in registers, N vectors each: one read and one write.
// Where rows lie closer together than columns, neighbouring invocations take neighbouring rows.
${logits.functions(MASK, VEC)}
${reduce.memory("red_a", "f32", WG)}
${reduce.memory("red_b", "f32", WG)}
${reduce.memory("flag_a", "u32", WG)}
${reduce.memory("flag_b", "u32", WG)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let apart = p.lanes_apart == 1u;
  let lane = select(li % LANES, li / (WG / LANES), apart);
  let inside = select(li / LANES, li % (WG / LANES), apart);
  let slot = inside * LANES + lane;
  let row = g * p.per_group + inside;
  let live = row < p.rows;
  let x_base = x_row(row);
  let head = row_head(row);
//% if MASK
  let mask_base = mask_row(row);
  let slope = alibi_slope(head);
//% endif

  var m = LOWEST;
  var flags = 0u;
//% for k in range(N)
  ${logits.load(k, "lane + " ~ k * LANES ~ "u", MASK, VEC)}
//% endfor
  var sink = LOWEST;
  if (p.has_sinks == 1u) {
    sink = sinks_load(p.sinks_off + head * p.sink_step);
    flags |= flags_of(sink) & 2u;
    m = max(m, sink);
  }
  ${reduce.lanes("m", "max", "red_a", "red_b", LANES)}
  ${reduce.lanes("flags", "|", "flag_a", "flag_b", LANES)}

//% set V = "vec4<f32>" if VEC == 4 else "f32"
  var sum = 0.0f;
//% for k in range(N)
  let e${k} = weight(l${k} - ${V}(m));
//% if VEC == 4
  sum += (e${k}.x + e${k}.y) + (e${k}.z + e${k}.w);
//% else
  sum += e${k};
//% endif
//% endfor
//% if LANES <= 8
  workgroupBarrier();  // the maxima have been read
//% endif
  ${reduce.lanes("sum", "+", "red_a", "red_b", LANES)}
  if (p.has_sinks == 1u) { sum += weight(${V}(sink - m))${"[0]" if VEC == 4 else ""}; }

  if (!live) { return; }
  let dst_base = dst_row(row);
  ${logits.outcome()}
//% for k in range(N)
  ${logits.finish(k, "lane + " ~ k * LANES ~ "u", "e" ~ k, VEC)}
//% endfor
}
