// The loader of tiles of bytes: a tile is loaded into registers while the previous tile is multiplied,
// and then stored to workgroup memory.
//
// An operand reaches workgroup memory as `<x>_tile[k][i]`: k counts words of four neighbouring k,
// and i counts groups of four rows of the operand; each component is a row. The incomplete tile at
// the end of k comes first, filled up with zeros; the order of integer sums does not matter.
//
// `t` describes the tiles of one operand:
//   x        its name: the macros read `<x>_mem`, `<x>_start` (index of the first k), `p.<x>_rs`, ...
//   V        bytes of one load: 4, or 1 for any strides
//   K_ROWS   k is the operand's axis of rows and words run across it (V is 4 then), not along k
//   EXTENT   rows of the operand in a tile
//   BK       words of k in a tile
// The number of invocations is the number of groups of rows times the number of words of k in a tile.

// Declares the positions from which this invocation loads. `first` is the tile's first row of the
// operand, and `count` is the operand's number of rows.
//% macro init(t, first, count)
//% set x = t.x
//% if t.K_ROWS
//% set across = t.EXTENT // 4
  let ${x}_i = li % ${across}u;
  let ${x}_k = li / ${across}u;
  let ${x}_from = ${x}_start + min(${first} / 4u + ${x}_i, ${count} / 4u - 1u);
//% else
  // Eight neighbours take eight groups of rows, so that their stores meet different banks.
  let ${x}_k = (li / 8u) % ${t.BK}u;
  let ${x}_i = li % 8u + (li / ${8 * t.BK}u) * 8u;
//% for i in range(4)
  let ${x}_from${i} = ${x}_at(${x}_start, min(${first} + ${x}_i * 4u + ${i}u, ${count} - 1u), 0u);
//% endfor
//% endif
//% endmacro

// Loads the last tile along k, whose number is `tile`, with zeros from `k_count` on.
//% macro load_last(t, tile)
//% set x = t.x
  let ${x}_at_k = (${tile} * ${t.BK}u + ${x}_k) * 4u;
//% if t.K_ROWS
  let ${x}_ks = vec4<u32>(${x}_at_k) + vec4<u32>(0u, 1u, 2u, 3u);
  let ${x}_near = vec4<u32>(${x}_from) + min(${x}_ks, vec4<u32>(k_count - 1u)) * p.${x}_rs;
  let ${x}_h = vec4<u32>(${x}_mem[${x}_near.x], ${x}_mem[${x}_near.y], ${x}_mem[${x}_near.z], ${x}_mem[${x}_near.w]);
  var ${x}_v = select(vec4<u32>(), ${x}_h, ${x}_ks < vec4<u32>(k_count));
  var ${x}_pos = ${x}_from + ${x}_k * 4u * p.${x}_rs;
//% else
//% if t.V == 4
  let ${x}_near = min(${x}_at_k, k_count - 1u) / 4u;
//% endif
  let ${x}_h = vec4<u32>(
//% for i in range(4)
//% if t.V == 4
    ${x}_mem[${x}_from${i} + ${x}_near],
//% else
    ${x}_word(${x}_from${i}, ${x}_at_k, k_count - 1u),
//% endif
//% endfor
  );
  var ${x}_v = ${x}_h & vec4<u32>(bytes_before(${x}_at_k, k_count));
  var ${x}_pos = ${x}_k${"" if t.V == 4 else " * 4u"};
//% endif
//% endmacro

// Loads the next whole tile; the first call loads the first tile.
//% macro load_next(t)
//% set x = t.x
      ${x}_v = vec4<u32>(
//% for i in range(4)
//% if t.K_ROWS
        ${x}_mem[${x}_pos + ${i}u * p.${x}_rs],
//% elif t.V == 4
        ${x}_mem[${x}_from${i} + ${x}_pos],
//% else
        ${x}_word(${x}_from${i}, ${x}_pos, k_count - 1u),
//% endif
//% endfor
      );
      ${x}_pos += ${t.BK if t.V == 4 and not t.K_ROWS else 4 * t.BK}u${" * p." ~ x ~ "_rs" if t.K_ROWS else ""};
//% endmacro

// Stores the loaded tile to workgroup memory.
//% macro store_stage(t)
    ${t.x}_tile[${t.x}_k][${t.x}_i] = ${"transpose4(" ~ t.x ~ "_v)" if t.K_ROWS else t.x ~ "_v"};
//% endmacro
