// /// kernel
// doc = "One row of rms_norm_linear: a GEMV of the row times the gains, divided by the row's root mean square at the end."
// part_of = "rms_norm_linear"
// configs.lanes = { COLS = 4, threads = 256 }
// axes.A = ["f32", "u32"]
// axes.B = ["f32", "u32"]
// axes.D = ["f32", "f16"]
// axes.V = [4]
// axes.HELD = "configs"
// pick.A = "dtype(w)"
// pick.B = "dtype(x)"
// pick.D = "dtype(dst)"
// pick.V = "4"
// pick.HELD = "'lanes'"
// when = ["(A, B, D) in (('f32', 'f32', 'f32'), ('u32', 'f32', 'f32'), ('u32', 'u32', 'f32'), ('u32', 'u32', 'f16'))"]
// inputs.w = { dtype = "A", vec = "V", index = false, readonly = true, axes = "m k" }
// inputs.x = { dtype = "B", vec = "V", index = false, readonly = true }
// inputs.gain = { dtype = "B", vec = "V", index = false, readonly = true }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", readonly = true, optional = true, axes = "m" }
// outputs.dst = { dtype = "D", index = false, axes = "m" }
// include normed
// params.lane_bits = { type = "u32" }
// params.steps = { type = "u32", value = "w.shape[1]" }
// uses = ["tile/epilogue", "tile/split_k", "gated", "normed"]
// grid = "cdiv(rows, CFG.COLS * (CFG.threads >> lane_bits))"
// ///

// 2^lane_bits invocations (lanes) share COLS rows of w and divide k among them; neighbouring lanes
// take neighbouring k. Each lane also adds up the squares of its part of x; the sums of all lanes
// of a row together are the sum of the whole row.
//% set COLS, WG = CFG.COLS, CFG.threads
//% set WORDS = A == "u32"
var<workgroup> partial: array<vec4<f32>, ${WG}>;

${normed.functions()}

//% macro four(x, h, T)
//% if T == "u32"
vec4<f32>(unpack2x16float(${x}[${2 * h}]), unpack2x16float(${x}[${2 * h + 1}]))
//%- else
${x}
//%- endif
//% endmacro

// Step k of the weights, of x and of the gains.
//% macro load(u, k)
//% for j in range(COLS)
    let w${u}_${j} = w_load(from${j} + ${k});
//% endfor
//% if WORDS and B == "f32"
//% for h in range(2)
    let x${u}_${h} = x_load(p.x_off + 2u * (${k}) + ${h}u);
    let f${u}_${h} = gain_load(p.gain_off + 2u * (${k}) + ${h}u);
//% endfor
//% else
    let x${u} = x_load(p.x_off + ${k});
    let f${u} = gain_load(p.gain_off + ${k});
//% endif
//% endmacro

//% macro multiply_add(u)
//% for h in range(2 if WORDS else 1)
    {
//% if WORDS and B == "f32"
      let x = x${u}_${h};
      let y = x * f${u}_${h};
//% else
      let x = ${four("x%d" % u, h, B)};
      let y = x * ${four("f%d" % u, h, B)};
//% endif
      squares += dot(x, x);
//% for j in range(COLS)
      acc${j} += dot(${four("w%d_%d" % (u, j), h, A)}, y);
//% endfor
    }
//% endfor
//% endmacro

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let lane = li & (lanes - 1u);
  let apart = 1u;
  let v0 = (g * (${WG}u >> p.lane_bits) + (li >> p.lane_bits)) * ${COLS}u;
//% for j in range(COLS)
  let from${j} = p.w_off + row_of(min(v0 + ${j}u, p.rows - 1u)) * p.w_ms;
  var acc${j} = 0.0f;
//% endfor
  var squares = 0.0f;
  let whole = p.steps / (2u * lanes) * 2u * lanes;
  for (var k = lane; k < whole; k += 2u * lanes) {
    ${load(0, "k")}
    ${load(1, "k + lanes")}
    ${multiply_add(0)}
    ${multiply_add(1)}
  }
  for (var k = whole + lane; k < p.steps; k += lanes) {
    ${load(0, "k")}
    ${multiply_add(0)}
  }
  partial[li] = vec4<f32>(squares);
  workgroupBarrier();
  ${split_k.tree("apart")}
  let factor = factor_of(partial[li - lane].x);
  workgroupBarrier();  // the squares have been read
  partial[li] = vec4<f32>(acc0, acc1, acc2, acc3);
  workgroupBarrier();
  ${split_k.tree("apart")}
  if (lane == 0u) { store_four(partial[li] * factor, v0); }
}
