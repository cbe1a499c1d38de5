// The loader of tiles of bytes: from memory to registers while the tile before is multiplied, then to
// workgroup memory.
//
// An operand reaches workgroup memory as `<x>_tile[k][i]`: k counts words of four neighbouring k, i
// groups of four rows of the operand, a row in each component. What is left of whole tiles comes
// first, from the end of k, with zeros beyond: sums of integers have no order.
//
// `t` describes the tiles of one operand:
//   x        its name: the macros read `<x>_mem`, `<x>_start` (index of the first k), `p.<x>_rs`, ...
//   V        bytes of one load along k: 8, or 1 for any strides
//   K_ROWS   k is the operand's row: loads are words of four rows at one k
//   EXTENT   rows of the operand in a tile
//   BK       words of k in a tile
//   threads  invocations of the workgroup

// Where this invocation loads from. `first`: the tile's first row of the operand; `count`: its rows.
// Eight neighbours take eight groups of rows, as in the loader of floats.
//% macro init(t, first, count)
//% set x = t.x
//% if t.K_ROWS
//% set across = t.EXTENT // 4
  let ${x}_i = li % ${across}u;
  let ${x}_k = li / ${across}u;
  let ${x}_from = ${x}_start + min(${first} / 4u + ${x}_i, ${count} / 4u - 1u);
//% else
//% set chunks = t.BK // (2 if t.V == 8 else 1)
//% set groups = t.threads // chunks
//% set low = 8 if groups >= 8 else groups
  let ${x}_k = (li / ${low}u) % ${chunks}u;
  let ${x}_i = li % ${low}u + (li / ${low * chunks}u) * ${low}u;
//% for u in range(t.EXTENT // 4 // groups)
//% for i in range(4)
  let ${x}_from${u}${i} = ${x}_at(${x}_start, min(${first} + (${x}_i + ${u * groups}u) * 4u + ${i}u, ${count} - 1u), 0u);
//% endfor
//% endfor
//% endif
//% endmacro

// Loads the last tile along k, number `tile`: zeros from `k_count` on.
//% macro load_last(t, tile)
//% set x = t.x
//% if t.K_ROWS
//% set per = t.threads // (t.EXTENT // 4)
//% for u in range(t.BK // per)
  let ${x}_at${u} = vec4<u32>((${tile} * ${t.BK}u + ${x}_k + ${u * per}u) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
  let ${x}_near${u} = vec4<u32>(${x}_from) + min(${x}_at${u}, vec4<u32>(k_count - 1u)) * p.${x}_rs;
  let ${x}_h${u} = vec4<u32>(${x}_mem[${x}_near${u}.x], ${x}_mem[${x}_near${u}.y], ${x}_mem[${x}_near${u}.z], ${x}_mem[${x}_near${u}.w]);
//% endfor
//% for u in range(t.BK // per)
  var ${x}_v${u} = select(vec4<u32>(), ${x}_h${u}, ${x}_at${u} < vec4<u32>(k_count));
//% endfor
  var ${x}_pos = ${x}_from + ${x}_k * 4u * p.${x}_rs;
//% else
//% set words = 2 if t.V == 8 else 1
//% set groups = t.threads // (t.BK // words)
  let ${x}_at = (${tile} * ${t.BK}u + ${x}_k * ${words}u) * 4u;
//% if t.V == 8
  let ${x}_keep = vec2<u32>(bytes_before(${x}_at, k_count), bytes_before(${x}_at + 4u, k_count));
  let ${x}_near = min(${x}_at / 8u, (k_count + 7u) / 8u - 1u);
//% else
  let ${x}_keep = bytes_before(${x}_at, k_count);
//% endif
//% for u in range(t.EXTENT // 4 // groups)
//% for i in range(4)
//% if t.V == 8
  var ${x}_v${u}${i} = ${x}_mem[${x}_from${u}${i} + ${x}_near];
//% else
  var ${x}_v${u}${i} = ${x}_word(${x}_from${u}${i}, ${x}_at, k_count - 1u);
//% endif
//% endfor
//% endfor
//% for u in range(t.EXTENT // 4 // groups)
//% for i in range(4)
  ${x}_v${u}${i} &= ${x}_keep;
//% endfor
//% endfor
  var ${x}_pos = ${x}_k${"" if t.V == 8 else " * 4u"};
//% endif
//% endmacro

// Loads the next whole tile, from the first one on.
//% macro load_next(t)
//% set x = t.x
//% if t.K_ROWS
//% set per = t.threads // (t.EXTENT // 4)
//% for u in range(t.BK // per)
      ${x}_v${u} = vec4<u32>(
//% for e in range(4)
        ${x}_mem[${x}_pos + ${4 * u * per + e}u * p.${x}_rs],
//% endfor
      );
//% endfor
      ${x}_pos += ${4 * t.BK}u * p.${x}_rs;
//% else
//% set groups = t.threads // (t.BK // (2 if t.V == 8 else 1))
//% for u in range(t.EXTENT // 4 // groups)
//% for i in range(4)
//% if t.V == 8
      ${x}_v${u}${i} = ${x}_mem[${x}_from${u}${i} + ${x}_pos];
//% else
      ${x}_v${u}${i} = ${x}_word(${x}_from${u}${i}, ${x}_pos, k_count - 1u);
//% endif
//% endfor
//% endfor
      ${x}_pos += ${t.BK // 2 if t.V == 8 else 4 * t.BK}u;
//% endif
//% endmacro

// Stores the loaded tile to workgroup memory.
//% macro store_stage(t)
//% set x = t.x
//% if t.K_ROWS
//% set per = t.threads // (t.EXTENT // 4)
//% for u in range(t.BK // per)
    ${x}_tile[${x}_k + ${u * per}u][${x}_i] = transpose4(${x}_v${u});
//% endfor
//% else
//% set words = 2 if t.V == 8 else 1
//% set groups = t.threads // (t.BK // words)
//% for u in range(t.EXTENT // 4 // groups)
//% for j in range(words)
//% set at = "[" ~ j ~ "]" if t.V == 8 else ""
    ${x}_tile[${x}_k * ${words}u + ${j}u][${x}_i + ${u * groups}u] = vec4<u32>(${x}_v${u}0${at}, ${x}_v${u}1${at}, ${x}_v${u}2${at}, ${x}_v${u}3${at});
//% endfor
//% endfor
//% endif
//% endmacro
