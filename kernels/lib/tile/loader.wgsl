// The loader of an operand's tiles: a tile is loaded into registers while the previous tile is
// multiplied, and then stored to workgroup memory.
//
// An operand reaches workgroup memory as f32, `<x>_tile[k][i]`, where i counts vectors of four rows
// of the operand (each row is multiplied with all rows of the other operand). One invocation loads
// four neighbouring rows at V neighbouring k and stores V whole vectors: writing components of a
// vector from several invocations would be a race. Eight neighbouring lanes take eight groups of
// rows, so that their stores meet different banks; a subgroup of 32 still reads whole sectors.
//
// `t` describes the tiles of one operand:
//   x        its name: the macros read `<x>_mem`, `<x>_start` (index of the first k), `p.<x>_rs`, ...
//   storage  the type of its elements in memory
//   V        elements of one load
//   K_ROWS   k is the operand's axis of rows and loads run across it (V is 4 then), not along k
//   EXTENT   rows of the operand in a tile
//   BK       k in a tile
//   threads  invocations of the workgroup

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
//% set chunks = t.BK // t.V
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

// Loads the first tile, which holds `k_prologue` steps of k and zeros beyond; the other tiles are
// whole.
//% macro load_prologue(t)
//% set x = t.x
//% if t.K_ROWS
//% set per = t.threads // (t.EXTENT // 4)
//% for u in range(t.BK // per)
  let ${x}_k${u} = ${x}_k + ${u * per}u;
  let ${x}_h${u} = ${x}_mem[${x}_from + min(${x}_k${u}, k_prologue - 1u) * p.${x}_rs];
//% endfor
//% for u in range(t.BK // per)
  var ${x}_v${u} = select(vec4<${t.storage}>(), ${x}_h${u}, ${x}_k${u} < k_prologue);
//% endfor
  var ${x}_pos = (k_prologue + ${x}_k) * p.${x}_rs;
//% else
//% set kind = t.storage if t.V == 1 else "vec" ~ t.V ~ "<" ~ t.storage ~ ">"
//% set step = " * p." ~ x ~ "_cs" if t.V == 1 else ""
//% set per = t.threads * t.V // t.BK
  let ${x}_last = min(${x}_k, k_prologue / ${t.V}u - 1u)${step};
//% for u in range(t.EXTENT // 4 // per)
//% for i in range(4)
  let ${x}_h${u}${i} = ${x}_mem[${x}_from${u}${i} + ${x}_last];
//% endfor
//% endfor
  let ${x}_in = ${x}_k * ${t.V}u < k_prologue;
//% for u in range(t.EXTENT // 4 // per)
//% for i in range(4)
  var ${x}_v${u}${i} = select(${kind}(), ${x}_h${u}${i}, ${x}_in);
//% endfor
//% endfor
  var ${x}_pos = (k_prologue / ${t.V}u + ${x}_k)${step};
//% endif
//% endmacro

// Loads the next tile.
//% macro load_next(t)
//% set x = t.x
//% if t.K_ROWS
//% set per = t.threads // (t.EXTENT // 4)
//% for u in range(t.BK // per)
      ${x}_v${u} = ${x}_mem[${x}_from + ${x}_pos + ${u * per}u * p.${x}_rs];
//% endfor
      ${x}_pos += ${t.BK}u * p.${x}_rs;
//% else
//% for u in range(t.EXTENT // 4 // (t.threads * t.V // t.BK))
//% for i in range(4)
      ${x}_v${u}${i} = ${x}_mem[${x}_from${u}${i} + ${x}_pos];
//% endfor
//% endfor
      ${x}_pos += ${t.BK // t.V}u${" * p." ~ x ~ "_cs" if t.V == 1 else ""};
//% endif
//% endmacro

// Stores the loaded tile to workgroup memory.
//% macro store_stage(t)
//% set x = t.x
//% if t.K_ROWS
//% set per = t.threads // (t.EXTENT // 4)
//% for u in range(t.BK // per)
    ${x}_tile[${x}_k + ${u * per}u][${x}_i] = vec4<f32>(${x}_v${u});
//% endfor
//% else
//% set per = t.threads * t.V // t.BK
//% for u in range(t.EXTENT // 4 // per)
//% for j in range(t.V)
//% set at = "" if t.V == 1 else "[" ~ j ~ "]"
    ${x}_tile[${x}_k * ${t.V}u + ${j}u][${x}_i + ${u * per}u] = vec4<f32>(vec4(${x}_v${u}0${at}, ${x}_v${u}1${at}, ${x}_v${u}2${at}, ${x}_v${u}3${at}));
//% endfor
//% endfor
//% endif
//% endmacro

// For loaders that give `count` items to `threads` invocations in several rounds: the item of round
// u (the last item again if there are no more), and the condition under which an invocation stores
// it.
//% macro item(u, count, threads)
${"min(li + " ~ u * threads ~ "u, " ~ (count - 1) ~ "u)" if (u + 1) * threads >= count else "li + " ~ u * threads ~ "u"}
//%- endmacro

//% macro if_item(u, count, threads)
${"if (li < " ~ (count - u * threads) ~ "u) {" if (u + 1) * threads > count else "{"}
//%- endmacro
