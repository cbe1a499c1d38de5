// /// kernel
// doc = "Gradients of norms over rows that fit into registers: dx, and sums over some rows of the gradients of weight and bias."
// part_of = "layer_norm_backward"
// configs.row4 = { LANES = 4, N = 1 }
// configs.row16 = { LANES = 4, N = 4 }
// configs.row64 = { LANES = 16, N = 4 }
// configs.row256 = { LANES = 64, N = 4 }
// configs.row1024 = { LANES = 256, N = 4 }
// configs.row2048 = { LANES = 256, N = 8 }
// configs.row4096 = { LANES = 256, N = 16 }
// axes.NORM = ["layer", "rms"]
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.W = { values = ["f32", "f16"], pick = "dtype(weight) or 'f32'" }
// axes.VEC = [1, 4]
// axes.LENGTH = "configs"
// axes.WG = { values = [256], pick = "256" }
// when = [
//   "W == 'f32' or (T == 'f16' and VEC == 4)",
//   "VEC == 4 or LENGTH in ('row16', 'row256', 'row4096')",
// ]
// inputs.dy = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs.x = { dtype = "T", vec = "VEC", like = "dy" }
// inputs.weight = { dtype = "W", vec = "VEC", index = false, optional = true, doc = "(cols,), contiguous" }
// inputs.ds = { dtype = "T", vec = "VEC", optional = true, like = "dy", doc = "Another gradient of x, which is added." }
// outputs.partials = { dtype = "f32", vec = "VEC", index = false, doc = "(groups, 2, cols): dweight, dbias; or (groups, 1, cols)" }
// outputs.dst = { dtype = "T", vec = "VEC", like = "dy", alias = "dy" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params.count = { type = "f32", value = "it.cols" }
// params.row_groups = { type = "u32", value = "cdiv(it.rows, WG // CFG.LANES)" }
// params.lanes_apart = { type = "u32", value = "1 if it.columns_apart('x') else 0" }
// params.per_group = { type = "u32", value = "WG // CFG.LANES" }
// params.has_weight = { type = "u32", value = "1 if weight else 0" }
// params.has_ds = { type = "u32", value = "1 if ds else 0" }
// params."has_partials workgroups l2" = { type = "u32" }
// params.eps = { type = "f32" }
// uses = ["reduce", "norm"]
// grid = "workgroups"
// ///

//% set LANES, N = CFG.LANES, CFG.N
//% set V = "vec4<f32>" if VEC == 4 else "f32"
//% set SUMS = N <= 8
// LANES invocations hold one row of x and of dy in registers, N vectors each, so there are two
// reads and one write. A workgroup takes one row after the other, in steps of the number of
// workgroups, and adds up their gradients of weight and bias, column by column (if registers have
// room for them); another dispatch adds the sums of all workgroups. Workgroup memory adds up the
// rows that one workgroup holds at the same time.
${reduce.memory(LANES, WG, false, "vec4<f32>" if NORM == "layer" else "vec2<f32>")}
//% if NORM == "rms"
${norm.inverse("f32")}
//% endif
//% if SUMS and LANES < WG
var<workgroup> shared_sums: array<${V}, ${WG}>;
//% endif

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
//% if LANES == WG
  let lane = li;
  let slot = li;
//% else
  let apart = p.lanes_apart == 1u;
  let lane = select(li % ${LANES}u, li / (WG / ${LANES}u), apart);
  let inside = select(li / ${LANES}u, li % (WG / ${LANES}u), apart);
  let slot = inside * ${LANES}u + lane;
//% endif
//% for k in range(N)
  let in${k} = lane + ${k * LANES}u < p.cols;
  let c${k} = min(lane + ${k * LANES}u, p.cols - 1u);
//% if SUMS
  var dw${k} = ${V}();
//% if NORM == "layer"
  var db${k} = ${V}();
//% endif
//% endif
//% endfor
  for (var r = g; r < p.row_groups; r += p.workgroups) {
//% if LANES == WG
    let row = r;
    let live = true;
//% else
    let own_row = r * p.per_group + inside;
    let live = own_row < p.rows;
    // Lanes past the end repeat the last row and store nothing.
    let row = min(own_row, p.rows - 1u);
//% endif
    let x_base = x_row(row);
    let dy_base = dy_row(row);
//% for k in range(N)
    var v${k} = x_load(x_at(x_base, c${k}));
    let dy${k} = dy_load(dy_at(dy_base, c${k}));
    var g${k} = dy${k};
//% endfor
    if (p.has_weight == 1u) {
//% for k in range(N)
      g${k} *= weight_load(p.weight_off + c${k});
//% endfor
    }

//% if NORM == "layer"
    // As in norm_rows, these are the differences from the rounded mean, their mean, their squares,
    // and their products with dy.
//% for k in range(N)
    let t${k} = select(${V}(), v${k}, in${k});
//% endfor
    var total = vec4<f32>(${norm.across(norm.plus("t", N), VEC)}, 0.0f, 0.0f, 0.0f);
    ${reduce.lanes("total", "+", LANES, again=true)}
    let mean = total.x / p.count;
//% for k in range(N)
    v${k} = select(${V}(), v${k} - ${V}(mean), in${k});
    let q${k} = v${k} * v${k};
    let h${k} = select(${V}(), g${k}, in${k});
    let z${k} = h${k} * v${k};
//% endfor
    var sums = vec4<f32>(
//% for s in ("v", "q", "h", "z")
      ${norm.across(norm.plus(s, N), VEC)},
//% endfor
    );
    ${reduce.lanes("sums", "+", LANES, again=true)}
    sums /= p.count;
    let offset = sums.x;
    let variance = max(sums.y - offset * offset, 0.0f);
    let factor = inverseSqrt(variance + p.eps);
    let along = factor * (sums.w - offset * sums.z);  // the mean of g times the norm's result
    let level = sums.z;
//% for k in range(N)
    v${k} = (v${k} - ${V}(offset)) * factor;
//% endfor
//% else
//% for k in range(N)
    let q${k} = select(${V}(), v${k} * v${k}, in${k});
    let z${k} = select(${V}(), g${k} * v${k}, in${k});
//% endfor
    var sums = vec2<f32>(${norm.across(norm.plus("q", N), VEC)}, ${norm.across(norm.plus("z", N), VEC)});
    ${reduce.lanes("sums", "+", LANES, again=true)}
    let factor = inverse(sums.x);
    // A length that is not above eps is replaced by eps, so it has no gradient.
    let share = select(1.0f / p.count, select(0.0f, 1.0f, sqrt(sums.x) >= p.eps), p.l2 == 1u);
    let along = factor * sums.y * share;
    let level = 0.0f;
//% for k in range(N)
    v${k} *= factor;
//% endfor
//% endif

//% if SUMS
//% for k in range(N)
    dw${k} += select(${V}(), dy${k} * v${k}, live);
//% if NORM == "layer"
    db${k} += select(${V}(), dy${k}, live);
//% endif
//% endfor
//% endif
    let dst_base = dst_row(row);
//% for k in range(N)
    v${k} = (g${k} - ${V}(level) - v${k} * along) * factor;
//% endfor
    if (p.has_ds == 1u) {
      let ds_base = ds_row(row);
//% for k in range(N)
      v${k} += ds_load(ds_at(ds_base, c${k}));
//% endfor
    }
//% for k in range(N)
    if (live & in${k}) { dst_store(dst_at(dst_base, c${k}), v${k}); }
//% endfor
  }

//% if SUMS
  if (p.has_partials == 1u) {
//% for s in (["dw", "db"] if NORM == "layer" else ["dw"])
    {
      let at = p.partials_off + (g * ${2 if NORM == "layer" else 1}u + ${loop.index0}u) * p.cols;
//% for k in range(N)
//% if LANES == WG
      if (in${k}) { partials_store(at + c${k}, ${s}${k}); }
//% else
      workgroupBarrier();  // the last sums have been read
      shared_sums[slot] = ${s}${k};
      workgroupBarrier();
      if ((inside == 0u) & in${k}) {
        for (var i = 1u; i < WG / ${LANES}u; i += 1u) { ${s}${k} += shared_sums[slot + i * ${LANES}u]; }
        partials_store(at + c${k}, ${s}${k});
      }
//% endif
//% endfor
    }
//% endfor
  }
//% endif
}
