// Products of one row, or of a few rows, with quantised weights. A workgroup takes `columns`
// columns and divides the groups of k into `runs` runs. Runs consist of whole rounds of `per`
// groups; all runs have the same length, except for the last runs.

//% macro bounds(per)
  let groups = p.depth >> 5u;
  let rounds = (groups + ${per - 1}u) / ${per}u;
  let each = (rounds + runs - 1u) / runs;
  let start = min(run * each, rounds);
  let end = min(start + each, rounds);
//% endmacro

// Adds up the runs of each column, in `partial[0]`, ... `partial[rows - 1]`: run r of column c has
// element r * columns + c. An invocation has run `run` of `held` columns. Its first column is in
// element `slot`, its second `apart` elements after that. Ends with a barrier.
//% macro sums(rows, held, apart="lanes")
  for (var half = runs >> 1u; half > 0u; half >>= 1u) {
    if (run < half) {
//% for s in range(rows)
//% for c in range(held)
      partial[${s}][slot${" + %du * %s" % (c, apart) if c}] += partial[${s}][slot + half * columns${" + %du * %s" % (c, apart) if c}];
//% endfor
//% endfor
    }
    workgroupBarrier();
  }
//% endmacro

// The sums of columns `at` to `at + 3` of row `row`.
//% macro four(row, at)
vec4<f32>(partial[${row}][${at}], partial[${row}][${at} + 1u], partial[${row}][${at} + 2u], partial[${row}][${at} + 3u])
//%- endmacro

// Declares the groups of round r in column n of a matrix: their numbers g<group>, words w<group> and
// scales s<group>.
//% macro load(per, matrix="0u")
//% set groups = quant.BLOCK // 32
//% for u in range(per)
//% if groups == 1 and u > 0
    let g${u} = min(r * ${per}u + ${u}u, groups - 1u);
//% else
    let g${u} = r * ${per}u + ${u}u;
//% endif
    let w${u} = load_quants(${matrix}, g${u}, n);
//% endfor
//% if groups == 1
//% for u in range(per)
    let s${u} = load_scales(${matrix}, g${u}, n);
//% endfor
//% else
    let s0 = load_scales(${matrix}, g0 / ${groups}u, n);
//% for u in range(1, per)
    let s${u} = s0;
//% endfor
//% endif
//% endmacro
