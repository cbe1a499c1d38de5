// /// kernel
// doc = "GEMV and skinny products of mul_mat_i8, with up to 8 rows of b; a is read once."
// part_of = "mul_mat_i8"
// configs.rows1 = { ROWS = 1, threads = 256 }
// configs.rows8 = { ROWS = 8, threads = 256 }
// axes.S = { values = ["i8", "u8"], pick = "dtype(a)" }
// axes.D = { values = ["i32", "f32", "f16"], pick = "dtype(dst)" }
// axes.AV = [1, 4, 16]
// axes.BV = { values = [4, 16], pick = "16 if AV == 16 else 4" }
// axes.HELD = "configs"
// when = ["BV == (16 if AV == 16 else 4)"]
// inputs.a = { dtype = "*", dtypes = ["int8", "uint8"], same = "kind", vec = "AV", bind = "'vec4<u32>' if AV == 16 else 'u32'" }
// inputs.b = { dtype = "*", dtypes = ["int8", "uint8"], same = "kind", vec = "BV", bind = "'vec4<u32>' if BV == 16 else 'u32'" }
// inputs."a_scale b_scale" = { dtype = "f32", optional = true }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D" }
// include product
// params."lane_bits rows_run" = { type = "u32" }
// params.has_a_scale = { type = "u32", value = "0 if a_scale is None else 1" }
// params.has_b_scale = { type = "u32", value = "0 if b_scale is None else 1" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// uses = ["packed", "tile/split_k"]
// grid = "it.batches * across"
// ///

// 2^lane_bits invocations (lanes) share four rows of a and divide k among them. Each lane multiplies its
// rows with all ROWS rows of b, which are contiguous along k; if dst has fewer rows, the last row of b is
// repeated. If k is contiguous in a, neighbouring invocations are lanes of the same rows. If neighbouring
// rows of a are neighbours in memory (rows_run), neighbouring invocations take neighbouring rows, and the
// lanes of a row lie further apart. AV is the form of a load: 16 bytes along k; or 4 bytes of four
// rows at one k (then a's last axis is m); or one byte, for any strides. A step covers 16 numbers
// along k in the first form, and 4 in the other forms.
//% set ROWS, WG = CFG.ROWS, CFG.threads
//% set STEP = 16 if AV == 16 else 4
//% set UNROLL = 1 if ROWS > 1 or AV == 1 else 2 if AV == 16 else 4
var<workgroup> partial: array<vec4<i32>, ${WG}>;
${packed.functions(S)}
//% if AV == 1
${packed.gather("a", "p.a_cs")}
//% endif
//% if D != "i32"
${packed.scaled()}
//% endif

// Load u of one round, at a step of k; with `cut`, the load may pass the end.
//% macro load(u, step, cut)
//% if AV == 16
//% for j in range(4)
      let w${u}_${j} = a_mem[a_from[${j}] + ${step}];
//% endfor
//% elif AV == 4
      let k${u} = vec4<u32>(4u * (${step})) + vec4<u32>(0u, 1u, 2u, 3u);
      let i${u} = vec4<u32>(a_from) + ${"min(k" ~ u ~ ", vec4<u32>(k_count - 1u))" if cut else "k" ~ u} * p.a_rs;
      let w${u} = vec4<u32>(a_mem[i${u}.x], a_mem[i${u}.y], a_mem[i${u}.z], a_mem[i${u}.w]);
//% else
      let w${u} = vec4<u32>(
//% for j in range(4)
        a_word(a_from[${j}], 4u * (${step}), k_count - 1u),
//% endfor
      );
//% endif
//% for s in range(ROWS)
      let x${u}_${s} = b_mem[b_from${s} + ${step}];
//% endfor
//% endmacro

// Adds the products of load u to the sums; `keep` is a mask of the bytes of a word of b that count,
// or "" for all bytes.
//% macro multiply_add(u, keep)
//% if AV == 16
//% for c in range(4)
      let y${u}_${c} = vec4<u32>(w${u}_0[${c}], w${u}_1[${c}], w${u}_2[${c}], w${u}_3[${c}]);
//% for s in range(ROWS)
      acc${s} += dot4(x${u}_${s}[${c}]${" & " ~ keep if keep else ""}, y${u}_${c});
//% endfor
//% endfor
//% else
      let y${u} = ${"transpose4(w" ~ u ~ ")" if AV == 4 else "w" ~ u};
//% for s in range(ROWS)
      acc${s} += dot4(x${u}_${s}${" & " ~ keep if keep else ""}, y${u});
//% endfor
//% endif
//% endmacro

// The sums over this lane's steps of k; the last step may be incomplete.
//% macro sum_over_k()
  {
    var k = lane;
//% if UNROLL > 1
    let whole = (k_count / ${STEP}u) / (lanes * ${UNROLL}u);
    for (var i = 0u; i < whole; i += 1u) {
//% for u in range(UNROLL)
      ${load(u, "k + " ~ u ~ "u * lanes", false)}
//% endfor
//% for u in range(UNROLL)
      ${multiply_add(u, "")}
//% endfor
      k += lanes * ${UNROLL}u;
    }
//% endif
    let steps = (k_count + ${STEP - 1}u) / ${STEP}u;
    for (; k < steps; k += lanes) {
//% if AV != 16
      let keep = bytes_before(4u * k, k_count);
//% endif
      ${load(0, "k", true)}
      ${multiply_add(0, "" if AV == 16 else "keep")}
    }
  }
//% endmacro

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let batch = g / p.across;
  let tile = g - batch * p.across;
  ${split_k.k_range("(batch / p.split_batches)")}
  let lanes = 1u << p.lane_bits;
  let per_group = ${WG}u >> p.lane_bits;
  let run = p.rows_run == 1u;
  let lane = select(li & (lanes - 1u), li / per_group, run);
  let inside = select(li >> p.lane_bits, li % per_group, run);
  let apart = select(1u, per_group, run);
  let m = vec4<u32>((tile * per_group + inside) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);

  let a_start = a_batch(batch) + k_first${" / 16u" if AV == 16 else " * p.a_rs" if AV == 4 else " * p.a_cs"};
//% if AV == 4
  let a_from = a_start + min(m.x / 4u, p.cols / 4u - 1u);
//% else
  let a_from = vec4<u32>(a_start) + min(m, vec4<u32>(p.cols - 1u)) * p.a_rs;
//% endif
  let b_start = b_batch(batch) + k_first / ${BV}u;
//% for s in range(ROWS)
  let b_from${s} = b_at(b_start, min(${s}u, p.rows - 1u), 0u);
  var acc${s} = vec4<i32>();
//% endfor
  ${sum_over_k()}

  ${packed.scales_of_batch(D)}
  let dst_start = dst_batch(batch);
//% if ROWS > 1
  var sums = array<vec4<i32>, ${ROWS}>(
//% for s in range(ROWS)
    acc${s},
//% endfor
  );
//% endif
  for (var row = 0u; row < min(p.rows, ${ROWS}u); row += 1u) {
    partial[li] = ${"sums[row]" if ROWS > 1 else "acc0"};
    workgroupBarrier();
    ${split_k.tree("apart")}
    if (lane == 0u) {
      let v = ${packed.finished(D, "partial[li]", "row", "m")};
//% for j in range(4)
      if (m[${j}] < p.cols) { dst_store(dst_at(dst_start, row, m[${j}]), v[${j}]); }
//% endfor
    }
    workgroupBarrier();  // the sums have been read
  }
}
