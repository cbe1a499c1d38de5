// /// kernel
// doc = "Weights P and gradients dS of the scores, for a window of queries x keys of some heads."
// part_of = "flash_attn_backward"
// axes.VEC = [4]
// axes.TILE = [32, 128]
// inputs.a = { dtype = "f32", vec = "VEC", index = false, readonly = true, doc = "(KV heads, D + Dv, keys): k over v" }
// inputs.b = { dtype = "f32", vec = "VEC", index = false, readonly = true, doc = "(heads, D + Dv, queries): q over do" }
// inputs.stats = { dtype = "f32", index = false, readonly = true, doc = "(heads, queries, 2): lse and delta" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, index = false, readonly = true }
// outputs.weights = { dtype = "f32", vec = "VEC", index = false, doc = "(window's heads, queries, keys): P" }
// outputs.grads = { dtype = "f32", vec = "VEC", index = false, doc = "The same: dS" }
// outputs.turned = { dtype = "f32", vec = "VEC", index = false, doc = "(window's heads, keys, queries): dS" }
// params.a_rs = { type = "u32" }
// params.b_rs = { type = "u32" }
// params.depth = { type = "u32" }
// params.value_depth = { type = "u32" }
// params.down = { type = "u32" }
// params.across = { type = "u32" }
// params.first_head = { type = "u32" }
// params.first_query = { type = "u32" }
// params.first_key = { type = "u32" }
// params.queries = { type = "u32" }
// params.keys = { type = "u32" }
// params.heads = { type = "u32" }
// params.group = { type = "u32" }
// params.lowest = { type = "i32" }
// params.highest = { type = "i32" }
// params.mask_kind = { type = "u32", value = "0 if mask is None else 3 if mask.dtype.name == 'bool' else 1 if mask.dtype.itemsize == 4 else 2" }
// params.mask_sb = { type = "u32" }
// params.mask_sh = { type = "u32" }
// params.mask_si = { type = "u32" }
// params.mask_sj = { type = "u32" }
// params.head_rows = { type = "u32", value = "1" }
// params.alibi_heads = { type = "u32" }
// params.max_bias = { type = "f32" }
// params.scale = { type = "f32" }
// params.softcap = { type = "f32" }
// uses = ["product", "logits"]
// grid = "turned.shape[0] * down * across"
// ///

// One workgroup computes a tile of the window: q.k over D, then do.v over Dv, in one run over the
// rows of both panels. What the second half needs of the first waits in the outputs, where this
// invocation alone reads it: registers for both would leave room for one workgroup in place of two.
// Keys and queries past the end, and what a query may not see, get weight and gradient 0 by
// selection, so nothing that is there, NaN or infinite, gets through. A tile that causality or the
// window hides is left as it is: nobody reads it.
//
// Bounds, for unchecked compilation: panels have whole tiles, windows too; indices of the mask and
// of stats are clamped to the last key and query; those of workgroup memory are lane numbers.
//% set NT, _, TR, TC, LR, LC = product.TILES[TILE ~ ""]
${product.memory(TILE, TILE)}
${logits.alibi()}

struct Weight {
  p: vec4<f32>,  // weights of four keys
  d: vec4<f32>,  // and their derivatives with respect to q.k, but for the factor dP - delta
}

fn mask_value(i: u32) -> f32 {
  let word = mask_mem[i >> (p.mask_kind - 1u)];
  let pair = unpack2x16float(word);
  let half = select(pair.x, pair.y, (i & 1u) == 1u);
  let byte = f32((word >> ((i & 3u) * 8u)) & 0xffu);
  return select(select(bitcast<f32>(word), half, p.mask_kind == 2u), byte, p.mask_kind == 3u);
}

// From the scores q.k of query i and keys j .. j + 3.
fn weight(qk: vec4<f32>, slope: f32, mask_base: u32, lse: f32, i: u32, j: u32) -> Weight {
  let key = vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u);
  let ahead = vec4<i32>(key) - vec4<i32>(i32(i));
  var hidden = (ahead < vec4<i32>(p.lowest)) | (ahead > vec4<i32>(p.highest));
  hidden |= (key >= vec4<u32>(p.keys)) | vec4<bool>((i >= p.queries) | (bitcast<u32>(lse) == 0xff800000u));
  var x = qk * p.scale;
  var slant = vec4<f32>(p.scale);
  if (p.softcap != 0.0f) {
    // tanh and its derivative, both from e^-2|u|: no cancellation in the derivative.
    let e = exp(-2.0f * min(abs(x / p.softcap), vec4<f32>(40.0f)));
    let once = 1.0f / (1.0f + e);
    x = select(x, p.softcap * sign(x) * ((1.0f - e) * once), x == x);
    slant *= 4.0f * e * once * once;
  }
  if (p.mask_kind != 0u) {
    let at = vec4<u32>(mask_base + min(i, p.queries - 1u) * p.mask_si) + min(key, vec4<u32>(p.keys - 1u)) * p.mask_sj;
    let m = vec4<f32>(mask_value(at.x), mask_value(at.y), mask_value(at.z), mask_value(at.w));
    let flags = p.mask_kind == 3u;
    hidden |= select(bitcast<vec4<u32>>(m) == vec4<u32>(0xff800000u), m == vec4<f32>(), flags);
    x += select(slope * m, vec4<f32>(), flags);
  }
  let d = x - vec4<f32>(lse);
  let lost = (bitcast<vec4<u32>>(d) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
  // exp of NaN may be anything.
  var e = select(exp(clamp(d, vec4<f32>(-104.0f), vec4<f32>(89.0f))), d, lost);
  e = select(e, vec4<f32>(), hidden | (d < vec4<f32>(-104.0f)));
  return Weight(e, select(e * slant, vec4<f32>(), hidden));
}

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let inside = g / (p.down * p.across);
  let tile = g - inside * (p.down * p.across);
  let tile_row = tile / p.across;
  let tile_col = tile - tile_row * p.across;
  let query0 = p.first_query + tile_row * ${TILE}u;
  let key0 = p.first_key + tile_col * ${TILE}u;
  let ahead = i32(key0) - i32(query0);
  if ((ahead + ${TILE - 1} < p.lowest) | (ahead - ${TILE - 1} > p.highest)) { return; }
  let own_head = p.first_head + inside;
  let rows = (p.depth + p.value_depth) * 16u;

  let head = 16u;  // all tiles are whole
  let a_start = p.a_off + (own_head / p.group) * rows * p.a_rs;
  let b_start = p.b_off + own_head * rows * p.b_rs;
  ${product.place("a", 4, true, TILE, NT, "key0", "(p.a_rs * 4u)")}
  ${product.place("b", 4, true, TILE, NT, "query0", "(p.b_rs * 4u)")}
  ${product.first("a", "f32", 4, true, TILE, NT)}
  ${product.first("b", "f32", 4, true, TILE, NT)}
  ${product.lanes(TR, TC, LR, LC, TILE)}
  ${product.sums(TR, TC)}
  for (var left = p.depth; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
    ${product.keep("a", 4, true, TILE, NT)}
    ${product.keep("b", 4, true, TILE, NT)}
    workgroupBarrier();
    ${product.next("a", 4, true, TILE, NT)}
    ${product.next("b", 4, true, TILE, NT)}
    ${product.multiply(TR, TC, LR, LC, false)}
  }

  let slope = alibi_slope(own_head);
  let mask_base = p.mask_off + (own_head / p.heads) * p.mask_sb + (own_head % p.heads) * p.mask_sh;
  let row0 = tile_row * ${TILE}u + at_row * 4u;  // in the window
  let col0 = tile_col * ${TILE // 4}u + at_col;
  let step = p.across * ${TILE // 4}u;
  let base = inside * p.down * ${TILE}u * step;
  {
    var c = array<vec4<f32>, ${TR * TC // 4}>(
//% for i in range(TR)
//% for j in range(TC // 4)
      c${i}_${j},
//% endfor
//% endfor
    );
    for (var n = 0u; n < ${TR * TC // 4}u; n += 1u) {
      let i = n / ${TC // 4}u;
      let col = col0 + (n % ${TC // 4}u) * ${LC}u;
      let row = row0 + (i >> 2u) * ${4 * LR}u + (i & 3u);
      let query = p.first_query + row;
      let lse = stats_load(p.stats_off + (own_head * p.b_rs * 4u + query) * 2u);
      let w = weight(c[n], slope, mask_base, lse, query, p.first_key + col * 4u);
      weights_mem[p.weights_off + base + row * step + col] = w.p;
      if (p.softcap != 0.0f) { grads_mem[p.grads_off + base + row * step + col] = w.d; }
    }
  }
//% for i in range(TR)
//% for j in range(TC // 4)
  c${i}_${j} = vec4<f32>();
//% endfor
//% endfor

  for (var left = p.value_depth; left > 0u; left -= 1u) {
    workgroupBarrier();
    ${product.keep("a", 4, true, TILE, NT)}
    ${product.keep("b", 4, true, TILE, NT)}
    workgroupBarrier();
    if (left > 1u) {
      ${product.next("a", 4, true, TILE, NT)}
      ${product.next("b", 4, true, TILE, NT)}
    }
    ${product.multiply(TR, TC, LR, LC, false)}
  }

  var c = array<vec4<f32>, ${TR * TC // 4}>(
//% for i in range(TR)
//% for j in range(TC // 4)
    c${i}_${j},
//% endfor
//% endfor
  );
  let high = p.down * ${TILE // 4}u;  // vectors of a row of `turned`
  for (var block = 0u; block < ${TR * TC // 16}u; block += 1u) {
    let i = block / ${TC // 4}u;
    let j = block % ${TC // 4}u;
    let col = col0 + j * ${LC}u;
    let row = row0 + i * ${4 * LR}u;
    let at = base + row * step + col;
    let stat = p.stats_off + (own_head * p.b_rs * 4u + p.first_query + row) * 2u;
//% for r in range(4)
    var d${r} = weights_mem[p.weights_off + at + ${r}u * step] * p.scale;
//% endfor
    if (p.softcap != 0.0f) {
//% for r in range(4)
      d${r} = grads_mem[p.grads_off + at + ${r}u * step];
//% endfor
    }
//% for r in range(4)
    let delta${r} = stats_load(stat + ${2 * r + 1}u);
//% endfor
//% for r in range(4)
    let s${r} = select(d${r} * (c[(i * 4u + ${r}u) * ${TC // 4}u + j] - vec4<f32>(delta${r})), vec4<f32>(), d${r} == vec4<f32>());
    grads_mem[p.grads_off + at + ${r}u * step] = s${r};
//% endfor
    let across = p.turned_off + (inside * p.across * ${TILE}u + col * 4u) * high + row / 4u;
//% for e in range(4)
    turned_mem[across + ${e}u * high] = vec4<f32>(s0[${e}], s1[${e}], s2[${e}], s3[${e}]);
//% endfor
  }
}
