// Blocks of query rows: the block that a workgroup computes, and its epilogue. This code runs once
// for each block, so its instructions are not in the cache: it is kept short, with branches around
// divisions that few calls need. L: attention_layout or attention_mma_layout; `epilogue` works only
// with attention_layout.

// Finds the block that workgroup `g` computes: its split of the keys, its KV head, its first row
// (`row0`) and column (`col0`), the keys that it may see, and the tiles of these keys. `local` is
// the number of the head among the bound KV heads, `kv_head` its number among the KV heads of
// `batch`.
//
// A dispatch computes `ranks` blocks of each split of the keys, from number `first_rank` on; all
// blocks of one split come before all blocks of the next split. Blocks of `spread` KV heads are
// neighbours, so that their keys stay in the cache. Among these, the blocks with the most keys come
// first (with causal, these are the last blocks of a `run`). The `rest` shortest blocks of each run
// come after all other blocks, for all heads, so that the last workgroups are short. A KV head has
// `breadth` workgroups with the same position in a run: one for each run and each part of the
// columns.
//% macro tile_index(L)
  var split = 0u;
  if (p.ranks < p.groups) { split = g / p.ranks; }
  let rank = ${"" if L.ONE_DISPATCH else "p.first_rank + "}g - split * p.ranks;
  let early = (p.run - p.rest) * p.breadth;
  let late = rank >= early * p.matrices;
  let each = select(early, p.rest * p.breadth, late);
  let spread = select(p.spread, p.matrices, late);
  let at = rank - select(0u, early * p.matrices, late);
  var local = at / (each * spread) * spread;
  var index = at - local * each;
  let heads = min(p.matrices - local, spread);
  if (heads > 1u) {
    let of_all = index;
    index = of_all / heads;
    local += of_all - index * heads;
  }
  var down = 0u;
  if (p.run > 1u) {
    down = index / p.breadth;
    index -= down * p.breadth;
  }
  let in_run = p.run - 1u - down - select(0u, p.run - p.rest, late);
  var col0 = 0u;
  if (p.columns > 1u) {
    let both = index;
    index = both / p.columns;
    col0 = (both - index * p.columns) * ${L.DVP}u;
  }
  let row0 = (index * p.run + in_run) * ${L.BR}u;
  var batch = ${"0u" if L.ONE_DISPATCH else "p.first_batch"};
  var kv_head = ${"" if L.ONE_DISPATCH else "p.first_head + "}local;
  if (kv_head >= p.kv_heads) {
    let whole = kv_head / p.kv_heads;
    batch += whole;
    kv_head -= whole * p.kv_heads;
  }

  ${key_range.count_and_band()}
  // The keys that the block may see. If queries see different keys, a block holds rows of one head,
  // or all queries of several heads.
  let first_row = select(0u, in_run * ${L.BR}u, p.run > 1u);
  let last_row = select(p.queries - 1u, min(first_row + ${L.BR - 1}u, p.queries - 1u), p.run > 1u);
  let lowest = i32(min(first_row, p.queries - 1u)) + ${key_range.LOW};
  let highest = i32(last_row) + ${key_range.HIGH};
  let seen_from = u32(clamp(lowest, 0, i32(${key_range.COUNT})));
  let seen_to = u32(clamp(highest + 1, 0, i32(${key_range.COUNT})));
//% if L.ONE_DISPATCH
  let split_start = split * p.split_tiles;
  let split_end = split_start + p.split_tiles;
//% else
  let split_end = p.long_tiles + split * p.split_tiles;
  let split_start = select(split_end - p.split_tiles, 0u, split == 0u);
//% endif
  let tile_from = max(seen_from / ${L.BC}u, split_start);
  let tile_to = min((seen_to + ${L.BC - 1}u) / ${L.BC}u, split_end);
//% endmacro

// These are filled at the end: the factor of each row of o, and the row's index in dst, or NONE.
//% macro memory(L)
var<workgroup> row_factor: array<f32, ${L.BR}>;
var<workgroup> row_dst: array<u32, ${L.BR}>;
const NONE = 0xffffffffu;
//% endmacro

// Stores o / l to dst, and stores lse. One invocation computes the l of a row, a sum over the lanes
// of the row's columns.
//% macro epilogue(L)
  workgroupBarrier();
//% for r in range(L.RV)
  a_tile[column & 7u][${r}][${"(column >> 3u) * " ~ L.QH ~ "u + " if L.CL > 8 else ""}at_row] = l${r};
//% endfor
  workgroupBarrier();
  ${_normalize(L)}
  workgroupBarrier();
//% for i in range(L.TR)
//% set own = "at_row * 4u + " ~ (i // 4 * 4 * L.QH + i % 4) ~ "u"
  let to${i} = row_dst[${own}];
  let factor${i} = row_factor[${own}];
//% endfor
//% for d in range(L.DV)
  if (at_value + ${L.APART * d}u < (p.value_depth - col0 + 3u) / 4u) {
//% for i in range(L.TR)
    if (to${i} != NONE) { dst_store(to${i} + at_value + ${L.APART * d}u, o${i}_${d} * factor${i}); }
//% endfor
  }
//% endfor
//% endmacro

// For each row, one invocation computes the row's sum with the sink of its head, its factor, its
// index in dst and its lse.
//% macro _normalize(L)
  if (li < ${L.BR}u) {
    let quad = (li >> 2u) & ${L.QH - 1}u;
    let part = li / ${4 * L.QH}u;
    var sum = a_tile[0][part][quad][li & 3u];
//% for n in range(1, L.CL)
    sum += a_tile[${n % 8}][part][quad + ${n // 8 * L.QH}u][li & 3u];
//% endfor
    var m = bitcast<f32>(ordered(atomicLoad(&row_max[li])));
    ${end_of_row(L, "row0 + li", "true")}
    row_factor[li] = row_scale;
    row_dst[li] = select(NONE, to, inside);
  }
//% endmacro

// Ends row `at`. From its `m` and `sum` it computes `row_scale`, the factor of its results, and
// `to`, their place if the row belongs to the call (`inside`); invocations for which `writes` holds
// store its lse.
//% macro end_of_row(L, at, writes)
    let row = ${at};
    let member = row / p.pitch;
    let query = row - member * p.pitch;
    let head = kv_head * p.group + member;
    let inside = (member < p.group) & (query < p.queries);
    let empty = (sum == 0.0f) | (m == LOWEST);
    var lost = is_lost(sum) | is_lost(m);
    var factor = 1.0f;
    if (p.has_sinks == 1u) {
      let sink = sinks_load(p.sinks_off + min(head, p.group * p.kv_heads - 1u) * p.sinks_hs) * LOG2E;
      lost |= is_lost(sink) & (bitcast<u32>(sink) != MINUS_INF) & !empty;
      let new_max = max(m, sink);
      let e = exp2_shifted(vec4<f32>(m - new_max, sink - new_max, 0.0f, 0.0f));
      factor = e.x;
      sum = sum * e.x + e.y;
      m = new_max;
    }
    let nan = bitcast<f32>(p.nan);
    let row_scale = select(select(factor / sum, 0.0f, empty), nan, lost);
    let query_at = ${"query" if L.ONE_DISPATCH else "(query - p.rows_before)"};
    let to = p.dst_off + split * p.dst_ps + batch * p.dst_bs + head * p.dst_hs + query_at * p.dst_ss + col0 / 4u;
    if (inside & (col0 == 0u) & ${writes}) {
      let lse = select((m + log2(sum)) * LN2, bitcast<f32>(p.minus_inf), empty);
      lse_store(p.lse_off + split * p.lse_ps + batch * p.lse_bs + head * p.lse_hs + query_at * p.lse_ss,
                select(lse, nan, lost));
    }
//% endmacro
