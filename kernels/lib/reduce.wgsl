// Reductions over the lanes of a row, through workgroup memory, in a fixed order.
//
// A workgroup of WG invocations holds WG / LANES rows. `slot` is row_in_group * LANES + lane.

//% macro memory(name, type, WG)
var<workgroup> ${name}: array<${type}, ${WG}>;
//% endmacro

// `value` becomes op over all lanes of the row. `a` and `b` are two arrays that nothing else uses
// between the last barrier and the next; they may be used again after one more barrier.
// Two rounds of at most 16 reads: few barriers, and lanes of one row read the same words.
//% macro lanes(value, op, a, b, LANES)
//% set first = 8 if LANES == 32 else 16
//% set groups = LANES // first if LANES > 8 else 1
//% macro join(x, y)
//% if op == "+" or op == "|"
(${x} ${op} ${y})
//% else
${op}(${x}, ${y})
//% endif
//% endmacro
  ${a}[slot] = ${value};
  workgroupBarrier();
//% if LANES <= 8
  {
    let base = slot - lane;
    var t = ${a}[base];
//% for k in range(1, LANES)
    t = ${join("t", a ~ "[base + " ~ k ~ "u]")};
//% endfor
    ${value} = t;
  }
//% else
  if (lane < ${groups}u) {
    let base = slot;
    var t = ${a}[base];
//% for k in range(1, first)
    t = ${join("t", a ~ "[base + " ~ k * groups ~ "u]")};
//% endfor
    ${b}[base] = t;
  }
  workgroupBarrier();
  {
    let base = slot - lane;
    var t = ${b}[base];
//% for k in range(1, groups)
    t = ${join("t", b ~ "[base + " ~ k ~ "u]")};
//% endfor
    ${value} = t;
  }
//% endif
//% endmacro
