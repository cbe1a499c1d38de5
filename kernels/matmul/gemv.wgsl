// /// kernel
// doc = "GEMV and skinny products of mul_mat, with up to 8 rows of b; a is read once."
// part_of = "mul_mat"
// configs.rows1 = { ROWS = 1, VECTORS = false, COLS = 4, threads = 256 }
// configs.rows4 = { ROWS = 4, VECTORS = true, COLS = 4, threads = 256 }
// configs.rows8 = { ROWS = 8, VECTORS = false, COLS = 4, threads = 256 }
// axes.A = { values = ["f32", "f16", "u32"], pick = "dtype(a)" }
// axes.B = { values = ["f32", "f16", "u32"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.AT = [false, true]
// axes."AV BV" = [1, 4]
// axes.HELD = "configs"
// when = [
//   "(A, B, D) in (('f32', 'f32', 'f32'), ('f16', 'f16', 'f32'), ('f16', 'f16', 'f16'), ('f16', 'f32', 'f32'), ('u32', 'f32', 'f32'), ('u32', 'u32', 'f32'), ('u32', 'u32', 'f16'), ('u32', 'f16', 'f32'), ('u32', 'f16', 'f16'))",
//   "AV == (1 if A == 'f16' else 4) or (A, AV) == ('f32', 1)",
//   "A != 'u32' or B == 'f32' or B == ('f16' if AT else 'u32')",
//   "BV == (1 if AT else AV)",
//   "AV == 4 or not CFG.VECTORS",
// ]
// inputs.a = { dtype = "A", vec = "AV" }
// inputs.b = { dtype = "B", vec = "BV" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D" }
// include product
// params.lane_bits = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", arg = true }
// uses = ["tile/epilogue", "tile/split_k"]
// grid = "it.batches * across"
// ///

// 2^lane_bits invocations (lanes) share COLS rows of a and divide k among them. If a's last axis is
// m (AT), they share as many rows as a vector holds. Each lane multiplies its rows with all ROWS
// rows of b; if dst has fewer rows, the last row of b is repeated. If k is contiguous, neighbouring
// invocations are lanes of the same rows. With AT, neighbouring invocations take neighbouring rows,
// the lanes of a row lie further apart, and rows of b go through workgroup memory. With A = u32, a
// is read as words of two halves, 16 bytes in each load.
//% set S, COLS, WG = CFG.ROWS, CFG.COLS, CFG.threads
//% set WORDS = A == "u32"
//% set OUT = 2 if WORDS and AT else 1
//% set STAGE = AT and S > 1
//% set BK = 2048 // S
//% set UNROLL = {1: 8, 4: 4, 8: 4}[S] if AT else {1: 4 if A == "f16" else 2, 4: 2, 8: 1}[S]
var<workgroup> partial: array<vec4<f32>, ${WG}>;
//% if STAGE
var<workgroup> b_tile: array<array<vec4<f32>, ${BK}>, ${S // 4}>;
//% endif

${epilogue.functions()}
${epilogue.of_rows()}

// Half h of the loaded values, which is four elements.
//% macro four(x, h, T)
//% if T == "u32"
vec4<f32>(unpack2x16float(${x}[${2 * h}]), unpack2x16float(${x}[${2 * h + 1}]))
//%- else
${x}
//%- endif
//% endmacro

// Load u of one round, at step k (elements, or vectors, of k).
//% macro load(u, k)
//% if AT and AV == 4
    let w${u} = a_load(a_from + ${k} * p.a_rs);
//% else
//% for j in range(4)
    let w${u}_${j} = a_load(a_from${j} + ${k}${"" if AV == 4 else " * a_step"});
//% endfor
//% endif
//% if not STAGE
//% for s in range(S)
//% if WORDS and BV == 4 and B == "f32"
    let x${u}_${s} = b_load(b_from${s} + 2u * ${k});
    let t${u}_${s} = b_load(b_from${s} + 2u * ${k} + 1u);
//% else
    let x${u}_${s} = b_load(b_from${s} + ${k}${"" if BV == 4 else " * p.b_cs"});
//% endif
//% endfor
//% endif
//% endmacro

// Adds the products of load u to the sums; `valid` is a condition, or "" if it always holds.
//% macro multiply_add(u, k, valid)
//% if STAGE
//% for h in range(S // 4)
    let z${u}_${h} = b_tile[${h}][${k}];
//% endfor
//% endif
//% if AT or AV == 1
//% for h in range(OUT)
    let y${u}_${h} = ${four("w" ~ u, h, A) if AV == 4 else "vec4<f32>(w" ~ u ~ "_0, w" ~ u ~ "_1, w" ~ u ~ "_2, w" ~ u ~ "_3)"};
//% for s in range(S)
//% set x = "z" ~ u ~ "_" ~ s // 4 ~ "[" ~ s % 4 ~ "]" if STAGE else "x" ~ u ~ "_" ~ s
//% if valid
    acc${s}_${h} += select(vec4<f32>(), y${u}_${h} * ${x}, ${valid});
//% else
    acc${s}_${h} = fma(y${u}_${h}, vec4<f32>(${x}), acc${s}_${h});
//% endif
//% endfor
//% endfor
//% else
//% for h in range(2 if WORDS else 1)
//% for j in range(4)
    let y${u}_${j}_${h} = ${four("w" ~ u ~ "_" ~ j, h, A)};
//% endfor
//% for s in range(S)
    let z${u}_${s}_${h} = ${four(("x", "t")[h if B == "f32" else 0] ~ u ~ "_" ~ s, h, B)};
//% for j in range(4)
//% if valid
    acc${s}_${j} += select(0.0f, dot(y${u}_${j}_${h}, z${u}_${s}_${h}), ${valid});
//% else
    acc${s}_${j} = sum4(y${u}_${j}_${h}, z${u}_${s}_${h}, acc${s}_${j});
//% endif
//% endfor
//% endfor
//% endfor
//% endif
//% endmacro

fn sum4(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// The sums over `count` steps of k from `start` on, which the lanes divide among them.
//% macro sum_over_k(start, count)
  {
    let whole = ${count} / (lanes * ${UNROLL}u);
    var k = lane;
    for (var i = 0u; i < whole; i += 1u) {
//% for u in range(UNROLL)
    ${load(u, "(" ~ start ~ "k + " ~ u ~ "u * lanes)")}
//% endfor
//% for u in range(UNROLL)
    ${multiply_add(u, "k + " ~ u ~ "u * lanes", "")}
//% endfor
      k += lanes * ${UNROLL}u;
    }
    let rest = (${count} - whole * lanes * ${UNROLL}u + lanes - 1u) >> p.lane_bits;
    for (var i = 0u; i < rest; i += 1u) {
      let inside_k = k < ${count};
      let k_near = min(k, ${count} - 1u);
      ${load(0, "(" ~ start ~ "k_near)")}
      ${multiply_add(0, "k_near", "inside_k")}
      k += lanes;
    }
  }
//% endmacro

// Several rows of b pass through workgroup memory, BK steps at a time.
//% macro sum_over_stages()
  for (var c0 = 0u; c0 < steps; c0 += ${BK}u) {
    let count = min(${BK}u, steps - c0);
    for (var k = li; k < count; k += ${WG}u) {
//% for h in range(S // 4)
      b_tile[${h}][k] = vec4<f32>(b_load(b_from${4 * h} + (c0 + k) * p.b_cs), b_load(b_from${4 * h + 1} + (c0 + k) * p.b_cs),
        b_load(b_from${4 * h + 2} + (c0 + k) * p.b_cs), b_load(b_from${4 * h + 3} + (c0 + k) * p.b_cs));
//% endfor
    }
    workgroupBarrier();
    ${sum_over_k("c0 + ", "count")}
    workgroupBarrier();  // b_tile has been read
  }
//% endmacro

// The first positions of this invocation's rows of a and of b, and its sums.
//% macro loader_init()
//% set along = 1 if AT or AV == 1 else 8 if WORDS else 4
  // The number of steps of k, which are elements, or vectors along k.
  let steps = k_count / ${along}u;
  let a_start = a_batch(batch) + k_first${" * p.a_rs" if AT else " * p.a_cs" if AV == 1 else " / " ~ along ~ "u"};
  let b_start = b_batch(batch) + k_first${" * p.b_cs" if BV == 1 else " / " ~ (8 if B == "u32" else 4) ~ "u"};
//% if AT and AV == 4
  let a_from = a_start + min(m0.x / ${COLS * OUT}u, p.cols / ${COLS * OUT}u - 1u);
//% else
//% for j in range(4)
  let a_from${j} = a_start + min(m0[${j}], p.cols - 1u) * p.${"a_cs" if AT else "a_rs"};
//% endfor
//% if AV == 1
  let a_step = p.${"a_rs" if AT else "a_cs"};
//% endif
//% endif
//% for s in range(S)
  let b_from${s} = b_at(b_start, min(${s}u, p.rows - 1u), 0u);
//% if AT or AV == 1
//% for h in range(OUT)
  var acc${s}_${h} = vec4<f32>();
//% endfor
//% else
//% for j in range(4)
  var acc${s}_${j} = 0.0f;
//% endfor
//% endif
//% endfor
//% endmacro

// Adds up the sums of all lanes for row s of dst and columns m<h>, and stores them with the epilogue.
//% macro reduce_and_store(s, h)
//% if s + h > 0
    workgroupBarrier();  // the last sums have been read
//% endif
//% if AT or AV == 1
    partial[li] = acc${s}_${h};
//% else
    partial[li] = vec4<f32>(acc${s}_0, acc${s}_1, acc${s}_2, acc${s}_3);
//% endif
    workgroupBarrier();
    ${split_k.tree("apart")}
    if (lane == 0u) {
      var v = partial[li] * select(p.scale, 1.0f, p.is_partial == 1u);
      if (has_epilogue()) { v = epilogue(v, bias_at(bias_start, ${s}u, 0u), residual_at(residual_start, ${s}u, 0u), m${h}); }
//% for j in range(4)
      if (m${h}[${j}] < p.cols) { dst_store(dst_at(dst_start, ${s}u, m${h}[${j}]), v[${j}]); }
//% endfor
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
//% if AT
  let lane = li / per_group;
  let inside = li - lane * per_group;
  let apart = per_group;
//% else
  let inside = li >> p.lane_bits;
  let lane = li & (lanes - 1u);
  let apart = 1u;
//% endif
//% for h in range(OUT)
//% if AT and AV == 1
  let m${h} = vec4<u32>(tile * per_group * ${COLS}u + inside) + vec4<u32>(0u, 1u, 2u, 3u) * per_group;
//% else
  let m${h} = vec4<u32>((tile * per_group + inside) * ${COLS * OUT}u) + vec4<u32>(0u, 1u, 2u, 3u) + ${4 * h}u;
//% endif
//% endfor

  ${loader_init()}
//% if STAGE
  ${sum_over_stages()}
//% else
  ${sum_over_k("", "steps")}
//% endif

  let dst_start = dst_batch(batch);
  let bias_start = bias_batch(batch);
  let residual_start = residual_batch(batch);
//% for s in range(S)
  if (p.rows > ${s}u) {
//% for h in range(OUT)
    ${reduce_and_store(s, h)}
//% endfor
  }
//% endfor
}
