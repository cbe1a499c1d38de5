// Reductions over the lanes of a row, through workgroup memory, in a fixed order.
//
// A workgroup of WG invocations holds WG / LANES rows; `slot` is row_in_group * LANES + lane. TYPE
// is the type of the values: f32, or a vector of several sums that are reduced at once.

//% macro memory(LANES, WG, SG=false, TYPE="f32")
var<workgroup> red_a: array<${TYPE}, ${WG}>;
//% if LANES > 8 and not SG
// The second round reads four values at a time.
var<workgroup> red_b: array<array<${TYPE}, 4>, ${WG // 4}>;
//% endif
//% endmacro

//% macro combine(op, x, y)
${"(" ~ x ~ " + " ~ y ~ ")" if op == "+" else op ~ "(" ~ x ~ ", " ~ y ~ ")"}
//% endmacro

// Replaces `value` by the reduction with `op` over all lanes of the row. `again`: this is not the
// first reduction of the kernel.
//% macro lanes(value, op, LANES, SG=false, again=false)
//% if again and (SG or LANES <= 8)
  workgroupBarrier();  // the last results have been read
//% endif
//% if SG
  ${subgroups(value, op)}
//% elif LANES <= 8
  red_a[slot] = ${value};
  workgroupBarrier();
  {
    let base = slot - lane;
    var t = red_a[base];
//% for k in range(1, LANES)
    t = ${combine(op, "t", "red_a[base + " ~ k ~ "u]")};
//% endfor
    ${value} = t;
  }
//% else
//% set second = {16: 4, 32: 4, 64: 8, 128: 16, 256: 16}[LANES]
  red_a[slot] = ${value};
  workgroupBarrier();
  if (lane < ${second}u) {
    var t = red_a[slot];
//% for k in range(1, LANES // second)
    t = ${combine(op, "t", "red_a[slot + " ~ k * second ~ "u]")};
//% endfor
    red_b[slot >> 2u][slot & 3u] = t;
  }
  workgroupBarrier();
  {
    let base = (slot - lane) >> 2u;
//% for k in range(second // 4)
    let r${k} = red_b[base + ${k}u];
    let t${k} = ${combine(op, combine(op, "r" ~ k ~ "[0]", "r" ~ k ~ "[1]"), combine(op, "r" ~ k ~ "[2]", "r" ~ k ~ "[3]"))};
//% endfor
//% if second == 4
    ${value} = t0;
//% elif second == 8
    ${value} = ${combine(op, "t0", "t1")};
//% else
    ${value} = ${combine(op, combine(op, "t0", "t1"), combine(op, "t2", "t3"))};
//% endif
  }
//% endif
//% endmacro

// For a row that fills the workgroup: replaces `value` by the reduction over the whole workgroup,
// with subgroup operations. Subgroups may have any size.
//% macro subgroups(value, op)
//% set call = "subgroupAdd" if op == "+" else "subgroupMax"
  {
    let part = ${call}(${value});
    if (subgroup_lane == 0u) { red_a[subgroup] = part; }
    workgroupBarrier();
    var t = red_a[min(subgroup_lane, subgroups - 1u)];
//% if op == "+"
    t = select(0.0f, t, subgroup_lane < subgroups);
//% endif
    for (var i = subgroup_lane + subgroup_width; i < subgroups; i += subgroup_width) {
      t = ${combine(op, "t", "red_a[i]")};
    }
    ${value} = ${call}(t);
  }
//% endmacro
