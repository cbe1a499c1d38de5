// /// kernel
// doc = "Few rows of mul_mat_id with weights of floats: a GEMV with the weights of each row's expert."
// part_of = "mul_mat_id"
// configs.lanes = { COLS = 4, threads = 256 }
// axes.A = { values = ["f32", "u32"], pick = "dtype(w)" }
// axes.B = { values = ["f32", "u32"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.V = { values = [4], pick = "4" }
// axes.HELD = "configs"
// pick.HELD = "'lanes'"
// when = ["(B, D) in (('f32', 'f32'), ('u32', 'f32'), ('u32', 'f16'))"]
// inputs.w = { dtype = "A", vec = "V", readonly = true, axes = "e m k" }
// inputs.b = { dtype = "B", vec = "V", readonly = true, axes = "r k", doc = "(rows, K), f32 or words of two halves" }
// include chosen
// params.lane_bits = { type = "u32" }
// uses = ["tile/epilogue", "tile/split_k", "indices", "gated", "chosen"]
// grid = "across * dst.shape[0]"
// ///

// 2^lane_bits invocations (lanes) share COLS rows of the weights and divide k among them, a step of EACH
// numbers at a time; neighbouring lanes take neighbouring steps.
//
// Bounds, for unchecked compilation: columns of loads are clamped to their count, the expert is below
// the count of experts, k is a multiple of 16; stores are guarded; indices into workgroup memory are
// below its size by construction.
//% set COLS, WG = CFG.COLS, CFG.threads
//% set EACH = 4 if A == "f32" and B == "f32" else 8
//% set AN, BN = EACH // (4 if A == "f32" else 8), EACH // (4 if B == "f32" else 8)
var<workgroup> partial: array<vec4<f32>, ${WG}>;

${chosen.functions()}

// Numbers 4 h to 4 h + 3 of a step, whose vectors are x_0, and x_1 if there are two.
//% macro four(x, h, T)
//% if T == "u32"
vec4<f32>(unpack2x16float(${x}_0[${2 * h}]), unpack2x16float(${x}_0[${2 * h + 1}]))
//%- else
${x}_${h}
//%- endif
//% endmacro

//% macro load(u, k)
//% for j in range(COLS)
//% for i in range(AN)
    let w${u}_${j}_${i} = w_load(from${j} + ${AN}u * (${k})${" + 1u" if i});
//% endfor
//% endfor
//% for i in range(BN)
    let x${u}_${i} = b_load(b_from + ${BN}u * (${k})${" + 1u" if i});
//% endfor
//% endmacro

//% macro multiply_add(u)
//% for h in range(EACH // 4)
    {
      let x = ${four("x%d" % u, h, B)};
//% for j in range(COLS)
      acc${j} += dot(${four("w%d_%d" % (u, j), h, A)}, x);
//% endfor
    }
//% endfor
//% endmacro

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  ${chosen.init()}
  let lanes = 1u << p.lane_bits;
  let lane = li & (lanes - 1u);
  let apart = 1u;
  let v0 = (tile * (${WG}u >> p.lane_bits) + (li >> p.lane_bits)) * ${COLS}u;
  let b_from = p.b_off + row / p.sharing * p.b_rs;
//% for j in range(COLS)
  let from${j} = p.w_off + expert * p.w_es + row_of(min(v0 + ${j}u, p.rows - 1u)) * p.w_ms;
  var acc${j} = 0.0f;
//% endfor
  let steps = p.depth / ${EACH}u;
  let whole = steps / (2u * lanes) * 2u * lanes;
  for (var k = lane; k < whole; k += 2u * lanes) {
    ${load(0, "k")}
    ${load(1, "k + lanes")}
    ${multiply_add(0)}
    ${multiply_add(1)}
  }
  for (var k = whole + lane; k < steps; k += lanes) {
    ${load(0, "k")}
    ${multiply_add(0)}
  }
  partial[li] = vec4<f32>(acc0, acc1, acc2, acc3);
  workgroupBarrier();
  ${split_k.tree("apart")}
  if (lane == 0u) { store_four(partial[li], v0, to, bias); }
}
