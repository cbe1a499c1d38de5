// /// kernel
// doc = "Attention of blocks of query rows: two register-tiled products and an online softmax."
// part_of = "flash_attn"
// axes.D = ["f32", "f16"]
// axes.TILE = ["32", "large"]
// axes.DVP = [64, 128]
// axes.VT = ["f32", "f16"]
// axes.VEC = [4]
// pick.D = "dtype(dst)"
// pick.VT = "v.dtype.short"
// pick.VEC = "4"
// inputs.q = { dtype = "f32", vec = "VEC", readonly = true, doc = "From pack_qk: (batch * kv_heads, padded depth, blocks * rows of a block)" }
// inputs.k = { dtype = "f32", vec = "VEC", readonly = true, doc = "From pack_qk: (batch * kv_heads, padded depth, tiles * keys of a tile)" }
// inputs.v = { dtype = "*", vec = "VEC", dtypes = ["float32", "float16"], bind = "'vec2<u32>' if VT == 'f16' and DVP == 64 else 'vec4<u32>'", doc = "Values of the KV heads of q and k: whole batches, or some of one" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true }
// inputs.sinks = { dtype = "f32", optional = true }
// outputs.lse = { dtype = "f32" }
// outputs.dst = { dtype = "D", vec = "VEC", doc = "Rows of whole vectors." }
// params.first_batch = { type = "u32" }
// params.first_head = { type = "u32" }
// params.kv_heads = { type = "u32" }
// params.group = { type = "u32" }
// params.queries = { type = "u32" }
// params.keys = { type = "u32" }
// params.chunks = { type = "u32", value = "q.shape[1] // 16" }
// params.q_width = { type = "u32", value = "q.shape[2] // 4" }
// params.k_width = { type = "u32", value = "k.shape[2] // 4" }
// params.value_depth = { type = "u32" }
// params.pitch = { type = "u32" }
// params.head_blocks = { type = "u32" }
// params.run = { type = "u32" }
// params.breadth = { type = "u32" }
// params.columns = { type = "u32" }
// params.matrices = { type = "u32", value = "q.shape[0]" }
// params.first_rank = { type = "u32" }
// params.ranks = { type = "u32" }
// params.long_tiles = { type = "u32" }
// params.slice_tiles = { type = "u32" }
// params.rows_before = { type = "u32" }
// params.band_low = { type = "i32" }
// params.band_high = { type = "i32" }
// params.spread = { type = "u32" }
// params.rest = { type = "u32" }
// params.v_sb = { type = "u32", value = "v.strides[0] // (8 if VT == 'f16' and DVP == 64 else 16) & 0xffffffff" }
// params.v_sh = { type = "u32", value = "v.strides[1] // (8 if VT == 'f16' and DVP == 64 else 16) & 0xffffffff" }
// params.v_st = { type = "u32", value = "v.strides[2] // (8 if VT == 'f16' and DVP == 64 else 16) & 0xffffffff" }
// params.mask_kind = { type = "u32" }
// params.mask_sb = { type = "u32" }
// params.mask_sh = { type = "u32" }
// params.mask_ss = { type = "u32" }
// params.mask_st = { type = "u32" }
// params.lse_sb = { type = "u32", value = "lse.strides[-3] // 4 & 0xffffffff" }
// params.lse_sh = { type = "u32", value = "lse.strides[-2] // 4 & 0xffffffff" }
// params.lse_st = { type = "u32", value = "lse.strides[-1] // 4 & 0xffffffff" }
// params.lse_slice = { type = "u32" }
// params.dst_sb = { type = "u32", value = "dst.strides[-4] // (4 * dst.dtype.itemsize) & 0xffffffff" }
// params.dst_sh = { type = "u32", value = "dst.strides[-3] // (4 * dst.dtype.itemsize) & 0xffffffff" }
// params.dst_st = { type = "u32", value = "dst.strides[-2] // (4 * dst.dtype.itemsize) & 0xffffffff" }
// params.dst_slice = { type = "u32" }
// params.sink_step = { type = "u32", value = "(sinks.strides[0] // 4 if sinks else 0) & 0xffffffff" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.alibi_heads = { type = "u32" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.scale = { type = "f32" }
// params.max_bias = { type = "f32" }
// params.softcap = { type = "f32" }
// workgroup_bytes = "16384 if TILE == '32' else 25600"
// uses = ["attention", "blocks"]
// grid = "ranks * (dst.shape[0] if dst_slice > 0 else 1)"
// ///

// One workgroup computes a block of BR query rows of one KV head (the query heads that share it
// are rows too), in DVP columns of dst, over one slice of the keys. It goes through the keys in
// tiles of BC: scores s = q k in registers, from chunks of 8 depths; online softmax; then parts of
// PK keys of p go to workgroup memory, and o += p v from chunks of 8 keys.
//
// A row counts its logits from a top that moves only when one passes it by SLACK. So most tiles
// exchange nothing but a flag; in the others, invocations with such logits raise their rows' tops.
//
// Chunks of q, k and v go through two stages of workgroup memory, with one barrier each: in the
// middle of a chunk the next one is stored. The one after it is loaded there.
//
// What the loops spend beside their multiply-adds, and the size of their text, decide the speed. So
// the vectors of one invocation lie in an axis with a literal index, and one index into workgroup
// memory, which is clamped once, serves all of them (for k and v alike); where an invocation loads as
// many vectors of a chunk as it multiplies, it stores them by literal indices too.
//
// Bounds, for unchecked compilation: q and k are padded to whole blocks, tiles and pairs of chunks,
// and positions move on while two pairs are left; rows of v are clamped to the keys, columns to its depth;
// mask rows and columns are clamped; stores are guarded; indices into workgroup memory are lane
// numbers below the sizes of the arrays.
// Invocations, query rows, keys of a tile, rows of an invocation, keys of p at a time.
//% if TILE == "32"
//% set NT, BR, BC, TR, PK = 64, 32, 32, 4, 32
//% elif DVP == 128
//% set NT, BR, BC, TR, PK = 128, 64, 128, 8, 32
//% else
//% set NT, BR, BC, TR, PK = 128, 128, 64, 8, 32
//% endif
//% set RG = BR // TR
//% set CL = NT // RG
//% set WA = CL // 8
//% set RV, CV, DV = TR // 4, BC // CL // 4, DVP // CL // 4
//% set QV, KV, VV = BR // 4, BC // 4, DVP // 4
//% set QL, KL, VL = 8 * QV // NT, 8 * KV // NT, 8 * VV // NT
// Vectors of v that one load brings, which then are neighbours in memory.
//% set VPL = 2 if VT == "f16" and DVP == 128 else 1
//% set PARTS = BC // PK
//% set NE = BC // CL // PARTS
//% set WN = WA * NE
//% set log2 = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5}
// Column lanes: CL, WA warps across. A part of p has WN chunks, NE from each warp.
// a_tile: depth or key, vector of an invocation, place: stage t of q, or chunk t of p, begins at QH * t.
// b_tile: depth or key, vector of an invocation, place: stage t of k or v begins at CL * t.
// An invocation's vectors of rows are QH apart, of keys CL, of values 8.
//% set QH = QV // RV
var<workgroup> a_tile: array<array<array<vec4<f32>, ${[2, WN] | max * QH}>, ${RV}>, 8>;
var<workgroup> b_tile: array<array<array<vec4<f32>, ${2 * CL}>, ${[CV, DV] | max}>, 8>;
// The tops of all rows, as ordered integers, and the last tile (from 1) that raised one.
var<workgroup> tops: array<atomic<i32>, ${BR}>;
var<workgroup> raised: atomic<u32>;
// At the end: what each row of sums is multiplied with, and its index in dst, or NONE.
var<workgroup> factors: array<f32, ${BR}>;
var<workgroup> rows: array<u32, ${BR}>;
const NONE = 0xffffffffu;

// How far a logit may stand above its row's top, in powers of two.
const SLACK = 8.0f;

// Integers in the order of the numbers; its own inverse.
fn ordered(bits: i32) -> i32 { return bits ^ ((bits >> 31u) & 0x7fffffff); }

${attention.rules(4)}

// Loads of q and k: the chunk of stage t at the positions.
//% macro load_qk(t)
//% for u in range(QL)
      q_v${u} = q_mem[q_from${t} + q_pos + ${u * QH}u];
//% endfor
//% for u in range(KL)
      k_v${u} = k_mem[k_from${t} + k_pos + ${u * CL}u];
//% endfor
//% endmacro

// The loaded chunk to stage t.
//% macro keep_qk(t)
//% for u in range(QL)
      a_tile[q_row][${u if QL == RV else 'q_half'}][q_place + ${t * QH}u] = q_v${u};
//% endfor
//% for u in range(KL)
      b_tile[k_row][${u if KL == CV else 'k_half'}][k_place + ${t * CL}u] = k_v${u};
//% endfor
//% endmacro

// Adds the products of step n of a chunk: rows of a, vectors of b. One component at a time there and
// back, along the rows, or down the columns (then a is loaded first).
//% macro multiply(into, n, a_at, stage, wide, down)
      {
//% for x in ("ab" if down else "ba")
//% for j in range(wide if x == "b" else 0)
        let b${j} = b_tile[${n}][${j}][column + ${stage * CL}u];
//% endfor
//% for r in range(RV if x == "a" else 0)
        let a${r} = a_tile[${n}][${r}][${a_at}];
//% endfor
//% endfor
//% set lines, steps = (4 * wide, TR) if down else (TR, 4 * wide)
//% for line in range(lines)
//% for n in range(steps)
//% set there = steps - 1 - n if line % 2 else n
//% set i, c = (there, line) if down else (line, there)
        ${into}${i}_${c // 4}[${c % 4}] = fma(a${i // 4}[${i % 4}], b${c // 4}[${c % 4}], ${into}${i}_${c // 4}[${c % 4}]);
//% endfor
//% endfor
      }
//% endmacro

// Loads of v: the chunk whose first key is `from`. The chunk behind the last one is loaded too.
//% macro load_v(from)
      {
        let key_at = min(${from} + v_lane, p.keys - 1u) * p.v_st;
//% for u in range(VL // VPL)
        v_v${u} = v_mem[v_start${u} + key_at];
//% endfor
      }
//% endmacro

//% macro loaded_v(u)
//% if VT == "f32"
bitcast<vec4<f32>>(v_v${u})
//% else
vec4<f32>(unpack2x16float(v_v${u // VPL}.${"xz"[u % VPL]}), unpack2x16float(v_v${u // VPL}.${"yw"[u % VPL]}))
//% endif
//% endmacro

// The loaded values to stage t, `ahead` chunks after the round's first. Values that no query of the
// block sees count as 0.
//% macro keep_v(ahead, t)
//% for u in range(VL)
      b_tile[v_row][${u if VL == DV else 'v_half'}][v_place + ${t * CL}u] = ${loaded_v(u)};
//% endfor
//% for u in range(VL)
      if ((shut & ${2 ** ahead}u) != 0u) { b_tile[v_row][${u if VL == DV else 'v_half'}][v_place + ${t * CL}u] = vec4<f32>(); }
//% endfor
//% endmacro

// Each row's scores of part `part` to a_tile: row lc, chunk after chunk.
//% macro keep_p(part)
//% for i in range(NE)
//% set j, x = (part * NE + i) // 4, (part * NE + i) % 4
//% for r in range(RV)
      a_tile[lc][${r}][p_to + ${i * WA * QH}u] = vec4<f32>(s${4 * r}_${j}[${x}], s${4 * r + 1}_${j}[${x}], s${4 * r + 2}_${j}[${x}], s${4 * r + 3}_${j}[${x}]);
//% endfor
//% endfor
//% endmacro

// o += p v, two chunks a round.
//% macro values()
    var q = 0u;
    loop {
//% for k in range(1, PARTS)
      if (q == ${k * WN}u) {
        ${keep_p(k)}
        workgroupBarrier();
      }
//% endfor
      let p_at = at_row + (q & ${WN - 1}u) * ${QH}u;
      let comp = ${"(q >> 1u) + 1u" if WA == 2 else "q + 2u"};
      let from_key = key0 + (comp >> 2u) * ${4 * CL}u + (comp & 3u);
//% for t in range(2)
//% for n in range(8)
      ${multiply("o", n, "p_at + " ~ t * QH ~ "u", 1 - t, DV, VPL == 2)}
//% if n == 3
      ${keep_v(t + 1, t)}
      ${load_v("from_key + " ~ (32 * t if WA == 2 else t) ~ "u")}
//% endif
//% endfor
      workgroupBarrier();
//% endfor
      shut >>= 2u;
      continuing {
        q += 2u;
        break if q >= chunks;
      }
    }
//% endmacro

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${blocks.place(BR, BC, DVP)}

  // 32 neighbouring invocations take 4 x 8 groups of rows and columns; a quad meets two of each.
  let w = li >> 5u;
  let lr = (li & 1u) | ((li >> 2u) & 2u);
  let lc = ((li >> 1u) & 3u) | ((li >> 2u) & 4u);
  let column = (w % ${WA}u) * 8u + lc;
  // Columns of dst: vectors from at_value on, APART from each other.
//% set APART = 1 if VPL == 2 else 8
  let at_value = ${"column * %du" % DV if VPL == 2 else "(w %% %du) * %du + lc" % (WA, 8 * DV)};
  let at_row = (w / ${WA}u) * 4u + lr;
  let p_to = (w % ${WA}u) * ${QH}u + at_row;
  // Loads: all vectors of a place, or one of them.
//% if QL == RV
  let q_row = li >> ${log2[QH]}u;
  let q_half = 0u;
//% else
  let q_row = li >> ${log2[QV]}u;
  let q_half = (li >> ${log2[QH]}u) & ${RV - 1}u;
//% endif
  let q_place = li & ${QH - 1}u;
//% if KL == CV
  let k_row = li >> ${log2[CL]}u;
  let k_half = 0u;
//% else
  let k_row = li >> ${log2[KV]}u;
  let k_half = (li >> ${log2[CL]}u) & ${CV - 1}u;
//% endif
  let k_place = li & ${CL - 1}u;
//% if VL == DV
  let v_row = li >> ${log2[CL]}u;
  let v_half = 0u;
  let v_place = li & ${CL - 1}u;
//% else
  let v_row = li >> ${log2[VV]}u;
  let v_half = (li >> 3u) & ${DV - 1}u;
  let v_place = ((li >> ${log2[DV]}u) & ${CL - 8}u) | (li & 7u);
//% endif

  let q_start = p.q_off + local * p.chunks * 16u * p.q_width + row0 / 4u + q_row * p.q_width + q_half * ${QH}u + q_place;
  let k_start = p.k_off + local * p.chunks * 16u * p.k_width + k_row * p.k_width + k_half * ${CL}u + k_place;
  let v_head = p.v_off${" / 2u" if VPL == 2 else ""} + (batch - p.first_batch) * p.v_sb + (kv_head - p.first_head) * p.v_sh;
//% for u in range(VL // VPL)
//% if VPL == 2
  let v_start${u} = v_head + min(col0 / 8u + v_place * ${DV // 2}u + ${u}u, (p.value_depth - 1u) / 8u);
//% else
  let v_start${u} = v_head + min(col0 / 4u + (((v_place >> 3u) * ${DV}u + v_half + ${u}u) << 3u) + (v_place & 7u), (p.value_depth - 1u) / 4u);
//% endif
//% endfor
//% for t in range(2)
  let q_from${t} = q_start + ${8 * t}u * p.q_width;
  let k_from${t} = k_start + ${8 * t}u * p.k_width;
//% endfor
  var q_pos = 0u;
  var k_pos = tile_from * ${KV}u;
  // Row n of a chunk of v is the key of column lane n, four keys a lane.
  let v_lane = v_row * 4u;
//% for u in range(QL)
  var q_v${u} = vec4<f32>();
//% endfor
//% for u in range(KL)
  var k_v${u} = vec4<f32>();
//% endfor
//% for u in range(VL // VPL)
  var v_v${u} = ${"vec2" if VT == "f16" and DVP == 64 else "vec4"}<u32>();
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

  if (li < ${BR}u) { atomicStore(&tops[li], ordered(bitcast<i32>(LOWEST))); }
  if (li == 0u) { atomicStore(&raised, 0u); }
  if (tile_from < tile_to) { ${load_qk(0)} }
  for (var tile = tile_from; tile < tile_to; tile += 1u) {
    let key0 = tile * ${BC}u;
    // Chunks of v: those of the first keys of all lanes, if no row sees the others.
    let chunks = select(${PARTS * WN}u, ${PARTS * WN // CV}u, key0 + ${BC // CV}u >= seen_to);
//% for i in range(TR)
//% for j in range(CV)
    var s${i}_${j} = vec4<f32>();
//% endfor
//% endfor
    ${keep_qk(0)}
    ${load_qk(1)}
    workgroupBarrier();
    q_pos = select(0u, 16u * p.q_width, p.chunks > 1u);
    k_pos += select(0u, 16u * p.k_width, p.chunks > 1u);
    for (var left = p.chunks; left > 0u; left -= 1u) {
//% for t in range(2)
//% for n in range(8)
      ${multiply("s", n, "at_row + " ~ t * QH ~ "u", t, CV, DVP == 64)}
//% if n == 3
      ${keep_qk(1 - t)}
      ${load_qk(t)}
//% endif
//% endfor
      workgroupBarrier();
//% endfor
      q_pos += select(0u, 16u * p.q_width, left > 2u);
      k_pos += select(0u, 16u * p.k_width, left > 2u);
    }
    ${load_v("key0")}

    // Logits. A tile that every query of the block sees whole needs only the factor, which then
    // comes with the exponential; so does one of which a band alone hides keys.
    let whole = (i32(key0) >= i32(last_row) + p.band_low) & (i32(key0 + ${BC - 1}u) <= i32(first_row) + p.band_high)
      & (key0 + ${BC}u <= p.keys);
    let plain = whole & (p.mask_kind == 0u);
    let bare = (p.mask_kind == 0u) & (p.softcap == 0.0f) & (p.scale > 0.0f);
    var factor = p.scale;
    if (bare & !whole & ((p.head_blocks > 1u) | (p.group == 1u))) {
//% for j in range(CV)
      let place${j} = vec4<i32>(i32(key0 + (column + ${CL * j}u) * 4u)) + vec4<i32>(0, 1, 2, 3);
//% endfor
//% for i in range(TR)
      {
        let query = i32(first_row + (at_row + ${i // 4 * QH}u) * 4u + ${i % 4}u);
        let low = vec4<i32>(query + p.band_low);
        let high = vec4<i32>(min(query + p.band_high, i32(p.keys) - 1));
//% for j in range(CV)
        s${i}_${j} = select(s${i}_${j}, vec4<f32>(bitcast<f32>(p.minus_inf)), (place${j} < low) | (place${j} > high));
//% endfor
      }
//% endfor
    } else if (!(bare & whole)) {
      factor = 1.0f;
      // A loop, as unrolled it would be larger than the products: the first row each time, then all
      // rows move up by one (an array of them would go through memory).
      for (var n = 0u; n < ${TR}u; n += 1u) {
        let row = row0 + (at_row + (n >> 2u) * ${QH}u) * 4u + (n & 3u);
        let member = row / p.pitch;
        let query = min(row - member * p.pitch, p.queries - 1u);
        let head = kv_head * p.group + min(member, p.group - 1u);
        let mask_at = p.mask_off + batch * p.mask_sb + head * p.mask_sh + query * p.mask_ss;
        let slope = slope_of(head);
//% for j in range(CV)
        let first${j} = logits(s0_${j}, query, key0 + (column + ${CL * j}u) * 4u, mask_at, slope);
//% for i in range(TR - 1)
        s${i}_${j} = s${i + 1}_${j};
//% endfor
        s${TR - 1}_${j} = first${j};
//% endfor
      }
    }

    // The maximum of each row over the keys of this invocation; NaN passes no top.
//% for r in range(RV)
    let t${r} = vec4<f32>(
//% for e in range(4)
//% set v = "max(s" ~ (4 * r + e) ~ "_0, s" ~ (4 * r + e) ~ "_" ~ (CV - 1) ~ ")"
      max(max(${v}.x, ${v}.y), max(${v}.z, ${v}.w)),
//% endfor
    );
    let above${r} = fma(t${r}, vec4<f32>(factor), -m${r}) > vec4<f32>(SLACK);
//% endfor
    if (any(above0${" | above1" if RV == 2 else ""})) {
//% for i in range(TR)
      atomicMax(&tops[4u * at_row + ${i // 4 * 4 * QH + i % 4}u], ordered(bitcast<i32>(t${i // 4}[${i % 4}] * factor)));
//% endfor
      atomicMax(&raised, tile + 1u);
    }
    // Which keys the mask leaves to any row.
    if (p.mask_kind != 0u) {
//% for j in range(CV)
      {
        var any_row = vec4<f32>();
//% for i in range(TR)
        any_row = select(any_row, vec4<f32>(1.0f), bitcast<vec4<u32>>(s${i}_${j}) != vec4<u32>(MINUS_INF));
//% endfor
        let group = (w / ${WA}u) * 4u + lr;
        b_tile[group & 7u][${j}][column + (group >> 3u) * ${CL}u] = any_row;
      }
//% endfor
    }
    workgroupBarrier();
    if (atomicLoad(&raised) == tile + 1u) {
//% for r in range(RV)
      let top${r} = bitcast<vec4<f32>>(vec4<i32>(
//% for e in range(4)
        ordered(atomicLoad(&tops[4u * at_row + ${4 * QH * r + e}u])),
//% endfor
      ));
      let shrink${r} = weight(m${r} - top${r});
      m${r} = top${r};
      l${r} *= shrink${r};
//% endfor
//% for i in range(TR)
//% for j in range(DV)
      o${i}_${j} *= shrink${i // 4}[${i % 4}];
//% endfor
//% endfor
    }
    var shut = 0u;
    if (!plain) {
      for (var n = 0u; n < ${CV * WA}u; n += 1u) {
        let across = n % ${WA}u;
        let j = n / ${WA}u;
        let at = across * 8u + v_row;
        var any_row = vec4<f32>(1.0f);
        if (p.mask_kind != 0u) {
          any_row = b_tile[0][j][at];
//% for n in range(1, RG)
          any_row = max(any_row, b_tile[${n % 8}][j][at + ${n // 8 * CL}u]);
//% endfor
        }
        let keys = vec4<u32>(key0 + (j * ${CL}u + at) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        let hidden = (any_row == vec4<f32>()) | (keys < vec4<u32>(seen_from)) | (keys >= vec4<u32>(seen_to));
//% set off = []
//% for e in range(4)
//% set _ = off.append(2 ** (e * WA))
//% endfor
        let bits = select(vec4<u32>(), vec4<u32>(${off | join("u, ")}u), hidden);
        let first = 4u * j * ${WA}u + across;
        shut |= (bits.x | bits.y | bits.z | bits.w) << first;
      }
    }
    if (p.mask_kind != 0u) { workgroupBarrier(); }
    // Only masked logits need the cut at 2^-126.
    if (plain) {
//% for i in range(TR)
//% for j in range(CV)
      s${i}_${j} = exp2(fma(s${i}_${j}, vec4<f32>(factor), -vec4<f32>(m${i // 4}[${i % 4}])));
//% endfor
//% endfor
    } else {
//% for i in range(TR)
//% for j in range(CV)
      s${i}_${j} = weight(fma(s${i}_${j}, vec4<f32>(factor), -vec4<f32>(m${i // 4}[${i % 4}])));
//% endfor
//% endfor
    }
//% for r in range(RV)
    l${r} += vec4<f32>(
//% for e in range(4)
//% set v = "(s" ~ (4 * r + e) ~ "_0" ~ (" + s" ~ (4 * r + e) ~ "_1" if CV > 1 else "") ~ ")"
      (${v}.x + ${v}.y) + (${v}.z + ${v}.w),
//% endfor
    );
//% endfor

    // The first chunk of v goes to stage 1: stage 0 is still being read.
    ${keep_p(0)}
    ${keep_v(0, 1)}
    ${load_v("key0 + " ~ (32 if WA == 2 else 1) ~ "u")}
    workgroupBarrier();
    q_pos = 0u;
    k_pos = min(tile + 1u, tile_to - 1u) * ${KV}u;
    ${values()}
    ${load_qk(0)}
  }

  // The sums of each row, of its column lanes, go to one invocation.
  workgroupBarrier();
//% for r in range(RV)
  a_tile[column & 7u][${r}][${"(column >> 3u) * " ~ QH ~ "u + " if CL > 8 else ""}at_row] = l${r};
//% endfor
  workgroupBarrier();
  ${blocks.finish(BR, QH, CL)}
  workgroupBarrier();
//% for i in range(TR)
//% set own = "at_row * 4u + " ~ (i // 4 * 4 * QH + i % 4) ~ "u"
  let to${i} = rows[${own}];
  let factor${i} = factors[${own}];
//% endfor
//% for d in range(DV)
  if (at_value + ${APART * d}u < (p.value_depth - col0 + 3u) / 4u) {
//% for i in range(TR)
    if (to${i} != NONE) { dst_store(to${i} + at_value + ${APART * d}u, o${i}_${d} * factor${i}); }
//% endfor
  }
//% endfor
}
