// /// kernel
// doc = "mul_mat with up to 8 rows of b: a is read once."
// part_of = "mul_mat"
// axes.A = ["f32", "f16"]
// axes.B = ["f32", "f16"]
// axes.D = ["f32", "f16"]
// axes.AT = [false, true]
// axes.AV = [1, 4]
// axes.BV = [1, 4]
// axes.S = [1, 4, 8]
// pick.A = "dtype(a)"
// pick.B = "dtype(b)"
// pick.D = "dtype(dst)"
// when = [
//   "(A, B, D) in (('f32', 'f32', 'f32'), ('f16', 'f16', 'f32'), ('f16', 'f16', 'f16'), ('f16', 'f32', 'f32'))",
//   "BV == (1 if AT else AV)",
//   "AV == 4 or S != 4",
// ]
// inputs.a = { dtype = "A", vec = "AV" }
// inputs.b = { dtype = "B", vec = "BV" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D" }
// iterate = "tiles"
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.depth = { type = "u32" }
// params.slice_depth = { type = "u32" }
// params.slice_batches = { type = "u32" }
// params.across = { type = "u32" }
// params.lane_bits = { type = "u32" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// params.residual_kind = { type = "u32", value = "0 if residual is None else 1 if residual.dtype.itemsize == 4 else 2" }
// params.act = { type = "u32" }
// params.raw = { type = "u32" }
// params.scale = { type = "f32", arg = true }
// uses = ["product"]
// grid = "it.batches * across"
// ///

// 2^lane_bits invocations (lanes) share four rows of a and split k; each multiplies them with all
// S rows of b (the last one again where dst has fewer). Along k, neighbouring invocations are
// lanes; with AT (rows of a run along m) they take neighbouring rows, and lanes lie further apart.
//% set U = {1: 4 if A == "f16" else 2, 4: 2, 8: 1}[S] * (2 if AT and AV == 4 else 1)
var<workgroup> red: array<vec4<f32>, 256>;

${product.epilogue()}
${product.finish()}

//% macro load(u, k)
//% if AT and AV == 4
    let w${u} = a_load(a_from + ${k} * p.a_rs);
//% else
//% for j in range(4)
    let w${u}_${j} = a_load(a_from${j} + ${k}${"" if AV == 4 else " * a_step"});
//% endfor
//% endif
//% for s in range(S)
    let x${u}_${s} = b_load(b_from${s} + ${k}${"" if BV == 4 else " * p.b_cs"});
//% endfor
//% endmacro

//% macro add(u, valid)
//% for s in range(S)
//% if AT or AV == 1
//% set w = "w" ~ u if AV == 4 else "vec4<f32>(w" ~ u ~ "_0, w" ~ u ~ "_1, w" ~ u ~ "_2, w" ~ u ~ "_3)"
//% if valid
    acc${s} += select(vec4<f32>(), ${w} * x${u}_${s}, ${valid});
//% else
    acc${s} = fma(${w}, vec4<f32>(x${u}_${s}), acc${s});
//% endif
//% else
//% for j in range(4)
//% if valid
    acc${s}_${j} += select(0.0f, dot(w${u}_${j}, x${u}_${s}), ${valid});
//% else
    acc${s}_${j} = fma(w${u}_${j}.w, x${u}_${s}.w, fma(w${u}_${j}.z, x${u}_${s}.z, fma(w${u}_${j}.y, x${u}_${s}.y, fma(w${u}_${j}.x, x${u}_${s}.x, acc${s}_${j}))));
//% endif
//% endfor
//% endif
//% endfor
//% endmacro

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let batch = g / p.across;
  let tile = g - batch * p.across;
  let k_first = (batch / p.slice_batches) * p.slice_depth;
  let k_count = min(p.slice_depth, p.depth - k_first);
  let lanes = 1u << p.lane_bits;
  let per_group = 256u >> p.lane_bits;
//% if AT
  let lane = li / per_group;
  let inside = li - lane * per_group;
  let apart = per_group;
//% else
  let inside = li >> p.lane_bits;
  let lane = li & (lanes - 1u);
  let apart = 1u;
//% endif
//% if AT and AV == 1
  let m = vec4<u32>(tile * per_group * 4u + inside) + vec4<u32>(0u, 1u, 2u, 3u) * per_group;
//% else
  let m = vec4<u32>((tile * per_group + inside) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
//% endif

  // Steps of k: elements, or vectors of four along k.
//% set along = 1 if AT or AV == 1 else 4
  let steps = k_count / ${along}u;
  let a_start = a_batch(batch) + k_first${" * p.a_rs" if AT else " * p.a_cs" if AV == 1 else " / 4u"};
  let b_start = b_batch(batch) + k_first${" * p.b_cs" if BV == 1 else " / 4u"};
//% if AT and AV == 4
  let a_from = a_start + min(m.x / 4u, p.cols / 4u - 1u);
//% else
//% for j in range(4)
  let a_from${j} = a_start + min(m[${j}], p.cols - 1u) * p.${"a_cs" if AT else "a_rs"};
//% endfor
//% if AV == 1
  let a_step = p.${"a_rs" if AT else "a_cs"};
//% endif
//% endif
//% for s in range(S)
  let b_from${s} = b_at(b_start, min(${s}u, p.rows - 1u), 0u);
//% if AT or AV == 1
  var acc${s} = vec4<f32>();
//% else
//% for j in range(4)
  var acc${s}_${j} = 0.0f;
//% endfor
//% endif
//% endfor

  let whole = steps / (lanes * ${U}u);
  var k = lane;
  for (var i = 0u; i < whole; i += 1u) {
//% for u in range(U)
    ${load(u, "(k + " ~ u ~ "u * lanes)")}
//% endfor
//% for u in range(U)
    ${add(u, "")}
//% endfor
    k += lanes * ${U}u;
  }
  let rest = (steps - whole * lanes * ${U}u + lanes - 1u) >> p.lane_bits;
  for (var i = 0u; i < rest; i += 1u) {
    let inside_k = k < steps;
    let k_near = min(k, steps - 1u);
    ${load(0, "k_near")}
    ${add(0, "inside_k")}
    k += lanes;
  }

  let dst_start = dst_batch(batch);
  let bias_start = bias_batch(batch);
  let residual_start = residual_batch(batch);
//% for s in range(S)
  if (p.rows > ${s}u) {
//% if s > 0
    workgroupBarrier();  // the last sums have been read
//% endif
//% if AT or AV == 1
    red[li] = acc${s};
//% else
    red[li] = vec4<f32>(acc${s}_0, acc${s}_1, acc${s}_2, acc${s}_3);
//% endif
    workgroupBarrier();
    for (var h = lanes >> 1u; h > 0u; h >>= 1u) {
      if (lane < h) { red[li] += red[li + h * apart]; }
      workgroupBarrier();
    }
    if (lane == 0u) {
      var v = red[li] * select(p.scale, 1.0f, p.raw == 1u);
      if (finishes()) { v = finish(v, bias_at(bias_start, ${s}u, 0u), residual_at(residual_start, ${s}u, 0u), m); }
//% for j in range(4)
      if (m[${j}] < p.cols) { dst_store(dst_at(dst_start, ${s}u, m[${j}]), v[${j}]); }
//% endfor
    }
  }
//% endfor
}
