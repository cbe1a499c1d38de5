// Blocks of attention_tile: which one a workgroup computes, and how its rows end. All of this runs
// once in a block and so from a cold instruction cache: it is kept short, by branches around
// divisions that few calls need.
//
// BR: query rows of a block; BC: keys of a tile; DVP: columns of dst.

// The workgroup's slice of the keys, KV head (`local` among those bound, `kv_head` of `batch`), first
// row (`row0`; its place in its head where heads begin at blocks) and column, and its tiles of keys.
//% macro place(BR, BC, DVP)
  // `ranks` blocks, from `first_rank` on; those of one slice of the keys after those of another.
  // Blocks of `spread` KV heads are neighbours, so that their keys stay in the cache. Among these the
  // blocks with the most keys (causal: the last of `run`) come first; the `rest` shortest of each run
  // follow for all heads, so that what ends last is short. `breadth` workgroups, of all runs of a KV
  // head and all columns, stand at the same place of their run.
  var slice = 0u;
  if (p.ranks < p.groups) { slice = g / p.ranks; }
  let rank = p.first_rank + g - slice * p.ranks;
  let early = (p.run - p.rest) * p.breadth;
  let late = rank >= early * p.matrices;
  let each = select(early, p.rest * p.breadth, late);
  let spread = select(p.spread, p.matrices, late);
  let at = rank - select(0u, early * p.matrices, late);
  var local = at / (each * spread) * spread;
  var place = at - local * each;
  let heads = min(p.matrices - local, spread);
  if (heads > 1u) {
    let of_all = place;
    place = of_all / heads;
    local += of_all - place * heads;
  }
  var down = 0u;
  if (p.run > 1u) {
    down = place / p.breadth;
    place -= down * p.breadth;
  }
  let in_run = p.run - 1u - down - select(0u, p.run - p.rest, late);
  var col0 = 0u;
  if (p.columns > 1u) {
    let both = place;
    place = both / p.columns;
    col0 = (both - place * p.columns) * ${DVP}u;
  }
  let row0 = (place * p.run + in_run) * ${BR}u;
  var batch = p.first_batch;
  var kv_head = p.first_head + local;
  if (kv_head >= p.kv_heads) {
    let whole = kv_head / p.kv_heads;
    batch += whole;
    kv_head -= whole * p.kv_heads;
  }

  // The keys that the block may see. Where queries see unlike keys a block holds rows of one head, or
  // of several heads all queries.
  let first_row = select(0u, in_run * ${BR}u, p.run > 1u);
  let last_row = select(p.queries - 1u, min(first_row + ${BR - 1}u, p.queries - 1u), p.run > 1u);
  let lowest = i32(min(first_row, p.queries - 1u)) + p.band_low;
  let highest = i32(last_row) + p.band_high;
  let seen_from = u32(clamp(lowest, 0, i32(p.keys)));
  let seen_to = u32(clamp(highest + 1, 0, i32(p.keys)));
  let slice_end = p.long_tiles + slice * p.slice_tiles;
  let slice_start = select(slice_end - p.slice_tiles, 0u, slice == 0u);
  let tile_from = max(seen_from / ${BC}u, slice_start);
  let tile_to = min((seen_to + ${BC - 1}u) / ${BC}u, slice_end);
//% endmacro

// From the sums of each row in `a_tile`, by column lanes (CL, in QH places of a vector of four rows): its
// factor and its index in dst, and its lse, which one invocation stores.
//% macro finish(BR, QH, CL)
  if (li < ${BR}u) {
    let quad = (li >> 2u) & ${QH - 1}u;
    let half = li / ${4 * QH}u;
    var sum = a_tile[0][half][quad][li & 3u];
//% for n in range(1, CL)
    sum += a_tile[${n % 8}][half][quad + ${n // 8 * QH}u][li & 3u];
//% endfor
    var top = bitcast<f32>(ordered(atomicLoad(&tops[li])));
    let row = row0 + li;
    let member = row / p.pitch;
    let query = row - member * p.pitch;
    let head = kv_head * p.group + member;
    let inside = (member < p.group) & (query < p.queries);
    let empty = (sum == 0.0f) | (top == LOWEST);
    var lost = is_lost(sum) | is_lost(top);
    var factor = 1.0f;
    if (p.has_sinks == 1u) {
      let sink = sinks_load(p.sinks_off + min(head, p.group * p.kv_heads - 1u) * p.sink_step) * LOG2E;
      lost |= is_lost(sink) & (bitcast<u32>(sink) != MINUS_INF) & !empty;
      let higher = max(top, sink);
      let shares = weight(vec4<f32>(top - higher, sink - higher, 0.0f, 0.0f));
      factor = shares.x;
      sum = sum * shares.x + shares.y;
      top = higher;
    }
    let nan = bitcast<f32>(p.nan);
    factors[li] = select(select(factor / sum, 0.0f, empty), nan, lost);
    let to = p.dst_off + slice * p.dst_slice + batch * p.dst_sb + head * p.dst_sh + (query - p.rows_before) * p.dst_st;
    rows[li] = select(NONE, to + col0 / 4u, inside);
    if (inside & (col0 == 0u)) {
      let lse = select((top + log2(sum)) * LN2, bitcast<f32>(p.minus_inf), empty);
      lse_store(p.lse_off + slice * p.lse_slice + batch * p.lse_sb + head * p.lse_sh + (query - p.rows_before) * p.lse_st,
                select(lse, nan, lost));
    }
  }
//% endmacro
