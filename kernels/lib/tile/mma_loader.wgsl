// The loader of tiles for matrix units: a tile is loaded into registers while the previous tile is
// multiplied, and then stored to workgroup memory in 16-byte units of `mma.UNIT` elements.
//
// `t` describes the tiles of one operand:
//   x        its name: the macros read `<x>_mem`, `p.<x>_rs`, and declare `<x>_...`
//   EXTENT   its rows in a tile (along the axis that is not k)
//   K_ROWS   k is the row in memory and units run across it; otherwise units run along k
//   ACROSS   units of a row of the tile: EXTENT or BK, in units
//   ROWS     rows of the tile: BK or EXTENT
//   BASE     the first unit of its tile in workgroup memory
//   BK       k of a tile, where it is not CFG.BK
// Rows in workgroup memory are ACROSS + 1 units apart, an odd number, so that they fall on
// different banks.

//% macro functions()
// A unit whose elements after the first `count` are 0.
fn first_of_unit(v: vec4<u32>, count: u32) -> vec4<u32> {
  let bits = vec4<u32>(min(count, ${mma.UNIT}u) * ${128 // mma.UNIT}u);
  let before = vec4<u32>(0u, 32u, 64u, 96u);
  let kept = min(max(bits, before) - before, vec4<u32>(32u));
  let mask = select((vec4<u32>(1u) << (kept & vec4<u32>(31u))) - vec4<u32>(1u), vec4<u32>(0xffffffffu), kept == vec4<u32>(32u));
  return v & mask;
}
//% endmacro

// The units of the tile that this invocation loads, and the registers for them.
//% macro lanes(t)
//% set x = t.x
//% set rows = CFG.threads // t.ACROSS
  let ${x}_c = li % ${t.ACROSS}u;
//% if not t.K_ROWS and t.ACROSS == 4
  // Every eight rows are taken in the order 0 4 1 5 .., so that fewer of their stores fall on the
  // same bank.
  let ${x}_i = li / 4u;
  let ${x}_r = (${x}_i & 0xfffffff8u) | ((${x}_i & 7u) >> 1u) | ((${x}_i & 1u) << 2u);
//% else
  let ${x}_r = li / ${t.ACROSS}u;
//% endif
  let ${x}_to = ${t.BASE}u + min(${x}_r * ${t.ACROSS + 1}u + ${x}_c, ${(rows - 1) * (t.ACROSS + 1) + t.ACROSS - 1}u);
//% for u in range(t.ROWS // rows)
  var ${x}_v${u} = vec4<u32>();
//% endfor
//% endmacro

// The positions of these units in memory. `first` is the tile's first row of the operand, `count`
// the operand's number of rows, and `start` its first unit, if that is not the start of a batch.
//% macro init(t, first, count, start="")
//% set x = t.x
//% set start = start or x ~ "_batch(batch)"
//% set rows = CFG.threads // t.ACROSS
  ${lanes(t)}
//% if t.K_ROWS
  let ${x}_from = ${start} + min(${first} / ${mma.UNIT}u + ${x}_c, (${count} + ${mma.UNIT - 1}u) / ${mma.UNIT}u - 1u);
//% else
  let ${x}_start = ${start};
//% for u in range(t.ROWS // rows)
  let ${x}_from${u} = ${x}_start + min(${first} + ${x}_r + ${u * rows}u, ${count} - 1u) * p.${x}_rs + ${x}_c;
//% endfor
//% endif
//% endmacro

// Loads the chunk at `k`, with zeros from `end` on; loads nothing if there is no such chunk. The
// driver keeps loads in a branch in their place, but moves other loads behind the product. With
// `whole`, all chunks are whole.
//% macro load(t, k, end, whole=false)
//% set x = t.x
//% set rows = CFG.threads // t.ACROSS
//% set loads = t.ROWS // rows
    if (${k} + ${t.BK | default(CFG.BK)}u <= ${end}) {
//% for u in range(loads)
//% if t.K_ROWS
      ${x}_v${u} = ${x}_mem[${x}_from + (${k} + ${x}_r + ${u * rows}u) * p.${x}_rs];
//% else
      ${x}_v${u} = ${x}_mem[${x}_from${u} + ${k} / ${mma.UNIT}u];
//% endif
//% endfor
    }
//% if not whole
    else if (${k} < ${end}) {
//% for u in range(loads)
      {
//% if t.K_ROWS
        let k_at = ${k} + ${x}_r + ${u * rows}u;
        let v = ${x}_mem[${x}_from + min(k_at, ${end} - 1u) * p.${x}_rs];
        ${x}_v${u} = select(vec4<u32>(), v, k_at < ${end});
//% else
        let unit = min(${k} / ${mma.UNIT}u + ${x}_c, (${end} - 1u) / ${mma.UNIT}u);
        let v = ${x}_mem[${x}_from${u} - ${x}_c + unit];
        ${x}_v${u} = first_of_unit(v, max(${k} + ${x}_c * ${mma.UNIT}u, ${end}) - (${k} + ${x}_c * ${mma.UNIT}u));
//% endif
      }
//% endfor
    }
//% endif
//% endmacro

//% macro store_stage(t)
//% set x = t.x
//% set rows = CFG.threads // t.ACROSS
//% set loads = t.ROWS // rows
//% for u in range(loads)
    ${mma.store_unit("%s_to + %du" % (x, u * rows * (t.ACROSS + 1)), "%s_v%d" % (x, u))}
//% endfor
//% endmacro

// The first unit of a subgroup's part of the tile, which begins at row `at` and has `extent` rows.
//% macro base(t, at, extent)
//% if t.K_ROWS
${t.BASE}u + min(${at} / ${mma.UNIT}u, ${(t.EXTENT - extent) // mma.UNIT}u)
//%- else
${t.BASE}u + min(${at} * ${t.ACROSS + 1}u, ${(t.EXTENT - extent) * (t.ACROSS + 1)}u)
//%- endif
//% endmacro

// Declares fragment `<x><part><n>`: its rows begin at row 16 n of the subgroup's part, and its
// values of k begin at `k` in the tile.
//% macro left(t, n, k, part="")
//% if t.K_ROWS
      ${mma.left(t.x ~ part ~ n, "%s_at + %du" % (t.x, k * (t.ACROSS + 1) + n * mma.M // mma.UNIT), (t.ACROSS + 1) ~ "u", true)}
//%- else
      ${mma.left(t.x ~ part ~ n, "%s_at + %du" % (t.x, n * mma.M * (t.ACROSS + 1) + k // mma.UNIT), (t.ACROSS + 1) ~ "u")}
//%- endif
//% endmacro
//% macro right(t, n, k, part="")
//% if t.K_ROWS
      ${mma.right(t.x ~ part ~ n, "%s_at + %du" % (t.x, k * (t.ACROSS + 1) + n * mma.N // mma.UNIT), (t.ACROSS + 1) ~ "u")}
//%- else
      ${mma.right(t.x ~ part ~ n, "%s_at + %du" % (t.x, n * mma.N * (t.ACROSS + 1) + k // mma.UNIT), (t.ACROSS + 1) ~ "u", true)}
//%- endif
//% endmacro
