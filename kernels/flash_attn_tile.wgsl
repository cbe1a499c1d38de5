// /// kernel
// doc = "Attention of blocks of query rows: two register-tiled products and an online softmax."
// part_of = "flash_attn"
// axes.T = ["f32", "f16"]
// axes.D = ["f32", "f16"]
// axes.TILE = ["32", "128"]
// axes.DVP = [64, 128]
// axes.VEC = [4]
// pick.T = "dtype(v)"
// pick.D = "dtype(dst)"
// pick.VEC = "4"
// when = ["T == 'f16' or D == 'f32'"]
// inputs.q = { dtype = "f32", vec = "VEC", readonly = true, doc = "From flash_attn_turn: (batch * kv_heads, padded depth, blocks * rows of a block)" }
// inputs.k = { dtype = "f32", vec = "VEC", readonly = true, doc = "From flash_attn_turn: (batch * kv_heads, padded depth, tiles * keys of a tile)" }
// inputs.v = { dtype = "T", vec = "VEC" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true }
// inputs.sinks = { dtype = "f32", optional = true }
// outputs.lse = { dtype = "f32" }
// outputs.dst = { dtype = "D" }
// params.first_matrix = { type = "u32" }
// params.kv_heads = { type = "u32" }
// params.group = { type = "u32" }
// params.queries = { type = "u32" }
// params.keys = { type = "u32" }
// params.chunks = { type = "u32", value = "q.shape[1] // 16" }
// params.q_width = { type = "u32", value = "q.shape[2] // 4" }
// params.k_width = { type = "u32", value = "k.shape[2] // 4" }
// params.value_depth = { type = "u32" }
// params.pitch = { type = "u32" }
// params.blocks = { type = "u32" }
// params.head_blocks = { type = "u32" }
// params.columns = { type = "u32" }
// params.slices = { type = "u32" }
// params.slice_tiles = { type = "u32" }
// params.band_low = { type = "i32" }
// params.band_high = { type = "i32" }
// params.v_sb = { type = "u32", value = "v.strides[0] // (4 * v.dtype.itemsize) & 0xffffffff" }
// params.v_sh = { type = "u32", value = "v.strides[1] // (4 * v.dtype.itemsize) & 0xffffffff" }
// params.v_st = { type = "u32", value = "v.strides[2] // (4 * v.dtype.itemsize) & 0xffffffff" }
// params.mask_kind = { type = "u32" }
// params.mask_sb = { type = "u32" }
// params.mask_sh = { type = "u32" }
// params.mask_ss = { type = "u32" }
// params.mask_st = { type = "u32" }
// params.lse_sb = { type = "u32", value = "lse.strides[-3] // 4 & 0xffffffff" }
// params.lse_sh = { type = "u32", value = "lse.strides[-2] // 4 & 0xffffffff" }
// params.lse_st = { type = "u32", value = "lse.strides[-1] // 4 & 0xffffffff" }
// params.lse_slice = { type = "u32" }
// params.dst_sb = { type = "u32", value = "dst.strides[-4] // dst.dtype.itemsize & 0xffffffff" }
// params.dst_sh = { type = "u32", value = "dst.strides[-3] // dst.dtype.itemsize & 0xffffffff" }
// params.dst_st = { type = "u32", value = "dst.strides[-2] // dst.dtype.itemsize & 0xffffffff" }
// params.dst_sd = { type = "u32", value = "dst.strides[-1] // dst.dtype.itemsize & 0xffffffff" }
// params.dst_slice = { type = "u32" }
// params.sink_step = { type = "u32", value = "(sinks.strides[0] // 4 if sinks else 0) & 0xffffffff" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.alibi_heads = { type = "u32" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.scale = { type = "f32" }
// params.max_bias = { type = "f32" }
// params.softcap = { type = "f32" }
// workgroup_bytes = "32768 if TILE == '128' else 16384"
// uses = ["attention"]
// grid = "q.shape[0] * blocks * columns * slices"
// ///

// One workgroup computes a block of BR query rows of one KV head (the query heads that share it
// are rows too), in DVP columns of dst, over one slice of the keys. It goes through the keys in
// tiles of BC: scores s = q k in registers, from chunks of 16 depths; online softmax; o += p v from
// chunks of CG keys, each column lane giving one of its keys.
//
// Chunks go through two stages of workgroup memory, with one barrier each: in the middle of chunk
// c the next one is stored and the one after it loaded, at clamped indices.
//
// Bounds, for unchecked compilation: q and k are padded to whole blocks, tiles and chunks; rows of
// v are clamped to the keys, columns to its depth; mask rows and columns are clamped; stores are
// guarded; indices into workgroup memory are lane numbers below the sizes of the arrays.
//% set NT, BR, TR, EU = {"32": (64, 32, 4, 2), "128": (256, 128, 8, 4)}[TILE]
//% set BC, TC, EDGE = BR, TR, BR // 4
//% set WA = BC // (8 * TC)
//% set CG = 8 * WA
//% set RG = BR // TR
//% set TD = DVP // CG
//% set RV, CV, DV = TR // 4, TC // 4, TD // 4
//% set CHUNKS = TC
//% set LOADS = 16 * EDGE // NT
//% set VLOADS = CG * DVP // 4 // NT
//% set BW = 2 * EDGE if CG == 16 else [2 * EDGE, DVP // 4] | max
//% set log2 = {8: 3, 16: 4, 32: 5}
// Stage t of q, k and p begins EDGE columns further right; that of v too, or 8 rows further down.
var<workgroup> a_tile: array<array<vec4<f32>, ${2 * EDGE}>, 16>;
var<workgroup> b_tile: array<array<vec4<f32>, ${BW}>, 16>;

${attention.rules(4)}

// Loads of chunk c of q and k.
//% macro load_qk(c)
      {
        let down = (${c}) * 16u;
//% for u in range(LOADS)
        q_v${u} = q_mem[q_start + (down + ${u * 16 // LOADS}u) * p.q_width];
//% endfor
//% for u in range(LOADS)
        k_v${u} = k_mem[k_tile + (down + ${u * 16 // LOADS}u) * p.k_width];
//% endfor
      }
//% endmacro

// The loaded chunk to the stage that begins at column `to`.
//% macro keep_qk(to)
//% for u in range(LOADS)
      a_tile[chunk_row + ${u * 16 // LOADS}u][chunk_column + ${to} * ${EDGE}u] = q_v${u};
//% endfor
//% for u in range(LOADS)
      b_tile[chunk_row + ${u * 16 // LOADS}u][chunk_column + ${to} * ${EDGE}u] = k_v${u};
//% endfor
//% endmacro

//% macro multiply_qk(first, last)
//% for n in range(first, last)
      {
//% for r in range(RV)
        let a${r} = a_tile[${n}][a_here + ${4 * r}u];
//% endfor
//% for j in range(CV)
        let b${j} = b_tile[${n}][b_here + ${8 * j}u];
//% endfor
//% for i in range(TR)
//% for j in range(CV)
        s${i}_${j} = fma(vec4<f32>(a${i // 4}[${i % 4}]), b${j}, s${i}_${j});
//% endfor
//% endfor
      }
//% endfor
//% endmacro

// Loads of chunk c of v: the keys that the column lanes give to it. Values of keys that no query
// of the block sees count as 0.
//% macro load_v(c)
      {
        let c = ${c};
//% for u in range(VLOADS)
        let n${u} = v_row + ${u * CG // VLOADS}u;
        let row${u} = key0 + ((n${u} >> 3u) * ${8 * CV}u + (n${u} & 7u) + (c >> 2u) * 8u) * 4u + (c & 3u);
        v_v${u} = v_mem[v_start + min(row${u}, p.keys - 1u) * p.v_st];
//% endfor
      }
//% endmacro

// Scores of each row's component e of vector j, and the loaded chunk of v, to stage t.
//% macro keep_pv(j, e, t, c)
//% for r in range(RV)
      a_tile[column][at_row + ${4 * r + EDGE * t}u] = vec4<f32>(s${4 * r}_${j}[${e}], s${4 * r + 1}_${j}[${e}], s${4 * r + 2}_${j}[${e}], s${4 * r + 3}_${j}[${e}]);
//% endfor
      if (plain) {
//% for u in range(VLOADS)
      b_tile[v_row + ${u * CG // VLOADS + (8 * t if CG == 8 else 0)}u][v_column + ${EDGE * t if CG == 16 else 0}u] = vec4<f32>(v_v${u});
//% endfor
      } else {
        let c = c0 + ${c}u;
//% for u in range(VLOADS)
        let n${u} = v_row + ${u * CG // VLOADS}u;
        let row${u} = key0 + ((n${u} >> 3u) * ${8 * CV}u + (n${u} & 7u) + (c >> 2u) * 8u) * 4u + (c & 3u);
        let in${u} = (row${u} >= seen_from) & (row${u} < seen_to) & (((open >> (c * ${VLOADS}u + ${u}u)) & 1u) == 1u);
        b_tile[v_row + ${u * CG // VLOADS + (8 * t if CG == 8 else 0)}u][v_column + ${EDGE * t if CG == 16 else 0}u] = select(vec4<f32>(), vec4<f32>(v_v${u}), in${u});
//% endfor
      }
//% endmacro

//% macro multiply_pv(first, last, t)
//% for n in range(first, last)
      {
//% for r in range(RV)
        let a${r} = a_tile[${n}][at_row + ${4 * r + EDGE * t}u];
//% endfor
//% for d in range(DV)
        let b${d} = b_tile[${n + (8 * t if CG == 8 else 0)}][at_value + ${8 * d + (EDGE * t if CG == 16 else 0)}u];
//% endfor
//% for i in range(TR)
//% for d in range(DV)
        o${i}_${d} = fma(vec4<f32>(a${i // 4}[${i % 4}]), b${d}, o${i}_${d});
//% endfor
//% endfor
      }
//% endfor
//% endmacro

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  // Neighbours work on different heads; the blocks with the most keys (causal) come first.
  let matrices = p.groups / (p.blocks * p.columns * p.slices);
  let rest = g / matrices;
  let local = g - rest * matrices;
  let matrix = p.first_matrix + local;
  let rest2 = rest / p.columns;
  let col0 = (rest - rest2 * p.columns) * ${DVP}u;
  let turn = rest2 / p.slices;
  let slice = rest2 - turn * p.slices;
  let members = p.blocks / p.head_blocks;
  let from_last = turn / members;
  let row0 = ((turn - from_last * members) * p.head_blocks + p.head_blocks - 1u - from_last) * ${BR}u;
  let batch = matrix / p.kv_heads;
  let kv_head = matrix - batch * p.kv_heads;

  // The keys that the block may see. A block holds rows of one head, or of several (any query).
  let first_row = select(0u, row0 % p.pitch, p.head_blocks > 1u);
  let last_row = select(p.queries - 1u, min(first_row + ${BR - 1}u, p.queries - 1u), p.head_blocks > 1u);
  let lowest = i32(min(first_row, p.queries - 1u)) + p.band_low;
  let highest = i32(last_row) + p.band_high;
  let seen_from = u32(clamp(lowest, 0, i32(p.keys)));
  let seen_to = u32(clamp(highest + 1, 0, i32(p.keys)));
  let tile_from = max(seen_from / ${BC}u, slice * p.slice_tiles);
  let tile_to = min((seen_to + ${BC - 1}u) / ${BC}u, (slice + 1u) * p.slice_tiles);

  // 32 neighbouring invocations take 4 x 8 groups of rows and columns; a quad meets two of each.
  let w = li >> 5u;
  let lr = (li & 1u) | ((li >> 2u) & 2u);
  let lc = ((li >> 1u) & 3u) | ((li >> 2u) & 4u);
  let at_row = (w / ${WA}u) * ${4 * RV}u + lr;
  let at_key = (w % ${WA}u) * ${8 * CV}u + lc;
  let at_value = (w % ${WA}u) * ${8 * DV}u + lc;
  let column = (w % ${WA}u) * 8u + lc;
  let chunk_row = li >> ${log2[EDGE]}u;
  let chunk_column = li & ${EDGE - 1}u;
  let v_row = li >> ${log2[DVP // 4]}u;
  let v_column = li & ${DVP // 4 - 1}u;

  let q_start = p.q_off + local * p.chunks * 16u * p.q_width + row0 / 4u + chunk_row * p.q_width + chunk_column;
  let k_start = p.k_off + local * p.chunks * 16u * p.k_width + chunk_row * p.k_width + chunk_column;
  let v_start = p.v_off + batch * p.v_sb + kv_head * p.v_sh + min(col0 / 4u + v_column, (p.value_depth - 1u) / 4u);
//% for u in range(LOADS)
  var q_v${u} = vec4<f32>();
  var k_v${u} = vec4<f32>();
//% endfor
//% for u in range(VLOADS)
  var v_v${u} = vec4<${T}>();
//% endfor
//% for r in range(RV)
  var m${r} = vec4<f32>(LOWEST);
  var l${r} = vec4<f32>();
//% endfor
//% for i in range(TR)
//% for j in range(DV)
  var o${i}_${j} = vec4<f32>();
//% endfor
//% endfor

  var k_tile = k_start + tile_from * ${EDGE}u;
  if (tile_from < tile_to) { ${load_qk("0u")} }
  for (var tile = tile_from; tile < tile_to; tile += 1u) {
    let key0 = tile * ${BC}u;
//% for i in range(TR)
//% for j in range(CV)
    var s${i}_${j} = vec4<f32>();
//% endfor
//% endfor
    ${keep_qk("0u")}
    ${load_qk("min(1u, p.chunks - 1u)")}
    workgroupBarrier();
    for (var c = 0u; c < p.chunks; c += 1u) {
      let flip = c & 1u;
      let a_here = at_row + flip * ${EDGE}u;
      let b_here = at_key + flip * ${EDGE}u;
      ${multiply_qk(0, 8)}
      ${keep_qk("(1u - flip)")}
      ${load_qk("min(c + 2u, p.chunks - 1u)")}
      ${multiply_qk(8, 16)}
      workgroupBarrier();
    }
    var open = 0xffffffffu;
    if (p.mask_kind == 0u) { ${load_v("0u")} }

    // Logits. A tile that every query of the block sees whole needs only the factor.
    let whole = (i32(key0) >= i32(last_row) + p.band_low) & (i32(key0 + ${BC - 1}u) <= i32(first_row) + p.band_high)
      & (key0 + ${BC}u <= p.keys);
    let plain = whole & (p.mask_kind == 0u);
    if (plain & (p.softcap == 0.0f)) {
//% for i in range(TR)
//% for j in range(CV)
      s${i}_${j} *= p.scale;
//% endfor
//% endfor
    } else {
      // A loop over an array: unrolled, it would be larger than the products.
      var held = array<vec4<f32>, ${TR * CV}>(
//% for i in range(TR)
//% for j in range(CV)
        s${i}_${j},
//% endfor
//% endfor
      );
      for (var n = 0u; n < ${TR * CV}u; n += 1u) {
        let i = n / ${CV}u;
        let row = row0 + (at_row + (i >> 2u) * 4u) * 4u + (i & 3u);
        let member = row / p.pitch;
        let query = min(row - member * p.pitch, p.queries - 1u);
        let head = kv_head * p.group + min(member, p.group - 1u);
        let mask_at = p.mask_off + batch * p.mask_sb + head * p.mask_sh + query * p.mask_ss;
        held[n] = logits(held[n], query, key0 + (at_key + (n % ${CV}u) * 8u) * 4u, mask_at, slope_of(head));
      }
//% for i in range(TR)
//% for j in range(CV)
      s${i}_${j} = held[${i * CV + j}];
//% endfor
//% endfor
    }

    // The maximum of each row over its column lanes, and which keys the mask leaves to any row.
//% for r in range(RV)
    var t${r} = vec4<f32>(
//% for e in range(4)
//% set v = "max(s" ~ (4 * r + e) ~ "_0, s" ~ (4 * r + e) ~ "_" ~ (CV - 1) ~ ")"
      max(max(${v}.x, ${v}.y), max(${v}.z, ${v}.w)),
//% endfor
    );
    a_tile[column][at_row + ${4 * r}u] = t${r};
//% endfor
    if (p.mask_kind != 0u) {
//% for j in range(CV)
      {
        var any_row = vec4<f32>();
//% for i in range(TR)
        any_row = select(any_row, vec4<f32>(1.0f), bitcast<vec4<u32>>(s${i}_${j}) != vec4<u32>(MINUS_INF));
//% endfor
        b_tile[(w / ${WA}u) * 4u + lr][at_key + ${8 * j}u] = any_row;
      }
//% endfor
    }
    workgroupBarrier();
//% for r in range(RV)
//% for n in range(CG)
    t${r} = max(t${r}, a_tile[${n}][at_row + ${4 * r}u]);
//% endfor
    t${r} = max(m${r}, t${r});
    let shrink${r} = weight(m${r} - t${r});
    m${r} = t${r};
    l${r} *= shrink${r};
//% endfor
    if (p.mask_kind != 0u) {
      open = 0u;
      for (var n = 0u; n < ${CV * VLOADS}u; n += 1u) {
        let u = n % ${VLOADS}u;
        let j = n / ${VLOADS}u;
        let lane = v_row + u * ${CG // VLOADS}u;
        let at = (lane >> 3u) * ${8 * CV}u + (lane & 7u) + j * 8u;
        var any_row = b_tile[0][at];
//% for n in range(1, RG)
        any_row = max(any_row, b_tile[${n}][at]);
//% endfor
        let bits = select(vec4<u32>(), vec4<u32>(1u, ${1 * 2 ** VLOADS}u, ${2 ** (2 * VLOADS)}u, ${2 ** (3 * VLOADS)}u), any_row > vec4<f32>());
        open |= (bits.x | bits.y | bits.z | bits.w) << (j * ${4 * VLOADS}u + u);
      }
      ${load_v("0u")}
    }
    // Only masked logits need the cut at 2^-126.
    if (plain) {
//% for i in range(TR)
//% for j in range(CV)
      s${i}_${j} = exp2(s${i}_${j} - vec4<f32>(m${i // 4}[${i % 4}]));
//% endfor
//% endfor
    } else {
//% for i in range(TR)
//% for j in range(CV)
      s${i}_${j} = weight(s${i}_${j} - vec4<f32>(m${i // 4}[${i % 4}]));
//% endfor
//% endfor
    }
//% for i in range(TR)
//% for j in range(DV)
    o${i}_${j} *= shrink${i // 4}[${i % 4}];
//% endfor
//% endfor
//% for r in range(RV)
    l${r} += vec4<f32>(
//% for e in range(4)
//% set v = "(s" ~ (4 * r + e) ~ "_0" ~ (" + s" ~ (4 * r + e) ~ "_1" if CV > 1 else "") ~ ")"
      (${v}.x + ${v}.y) + (${v}.z + ${v}.w),
//% endfor
    );
//% endfor

    // The first chunk of p and v goes to stage 1: stage 0 is still being read.
    { let c0 = 0u; ${keep_pv(0, 0, 1, 0)} }
    ${load_v("1u")}
    workgroupBarrier();
    k_tile = k_start + min(tile + 1u, tile_to - 1u) * ${EDGE}u;
    for (var c0 = 0u; c0 < ${CHUNKS}u; c0 += ${EU}u) {
//% for e in range(EU)
      ${multiply_pv(0, CG // 2, (e + 1) % 2)}
      ${keep_pv(0 if e < 3 else CV - 1, (e + 1) % 4, e % 2, e + 1)}
      ${load_v("min(c0 + " ~ (e + 2) ~ "u, " ~ (CHUNKS - 1) ~ "u)")}
//% if e == EU - 1
      ${load_qk("0u")}
//% endif
      ${multiply_pv(CG // 2, CG, (e + 1) % 2)}
      workgroupBarrier();
//% endfor
//% for i in range(TR)
      s${i}_0 = s${i}_${CV - 1}${".zwxy" if EU == 2 else ""};
//% endfor
    }
  }

  // The sum of each row over its column lanes.
  workgroupBarrier();
//% for r in range(RV)
  a_tile[column][at_row + ${4 * r}u] = l${r};
//% endfor
  workgroupBarrier();
//% for r in range(RV)
  l${r} = a_tile[0][at_row + ${4 * r}u];
//% for n in range(1, CG)
  l${r} += a_tile[${n}][at_row + ${4 * r}u];
//% endfor
//% endfor
  var sums = array<vec4<f32>, ${RV}>(
//% for r in range(RV)
    l${r},
//% endfor
  );
  var tops = array<vec4<f32>, ${RV}>(
//% for r in range(RV)
    m${r},
//% endfor
  );
  var out = array<vec4<f32>, ${TR * DV}>(
//% for i in range(TR)
//% for d in range(DV)
    o${i}_${d},
//% endfor
//% endfor
  );
  for (var i = 0u; i < ${TR}u; i += 1u) {
    let row = row0 + (at_row + (i >> 2u) * 4u) * 4u + (i & 3u);
    let member = row / p.pitch;
    let query = row - member * p.pitch;
    let head = kv_head * p.group + member;
    let sum = sums[i >> 2u][i & 3u];
    var top = tops[i >> 2u][i & 3u];
    let empty = (sum == 0.0f) | (top == LOWEST);
    var lost = is_lost(sum) | is_lost(top);
    var total = sum;
    var factor = 1.0f;
    if (p.has_sinks == 1u) {
      let sink = sinks_load(p.sinks_off + min(head, p.group * p.kv_heads - 1u) * p.sink_step) * LOG2E;
      if (bitcast<u32>(sink) != MINUS_INF) {
        lost |= is_lost(sink) & !empty;
        let higher = max(top, sink);
        let w = weight(vec4<f32>(top - higher, sink - higher, 0.0f, 0.0f));
        factor = w.x;
        total = sum * w.x + w.y;
        top = higher;
      }
    }
    factor = select(factor / total, 0.0f, empty);
    if ((member < p.group) & (query < p.queries)) {
      let nan = bitcast<f32>(p.nan);
      let to = p.dst_off + slice * p.dst_slice + batch * p.dst_sb + head * p.dst_sh + query * p.dst_st;
//% for d in range(DV)
      let v${d} = select(out[i * ${DV}u + ${d}u] * factor, vec4<f32>(nan), lost);
      let d${d} = col0 + (at_value + ${8 * d}u) * 4u;
//% for e in range(4)
      if (d${d} + ${e}u < p.value_depth) { dst_store(to + (d${d} + ${e}u) * p.dst_sd, v${d}[${e}]); }
//% endfor
//% endfor
      if ((column == 0u) & (col0 == 0u)) {
        let l = select((top + log2(total)) * LN2, bitcast<f32>(p.minus_inf), empty);
        lse_store(p.lse_off + slice * p.lse_slice + batch * p.lse_sb + head * p.lse_sh + query * p.lse_st,
                  select(l, nan, lost));
      }
    }
  }
}
