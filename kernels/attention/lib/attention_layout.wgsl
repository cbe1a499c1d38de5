// How a workgroup of attention_tile holds a block: the part of each invocation, and the places of
// operands in workgroup memory. Other libraries get this module as their argument L.
//
// NT: invocations; BR: query rows of a block; BC: keys of a tile; TR: rows of an invocation; PK: keys
// of p in workgroup memory at a time; DVP: columns of dst.
//% set NT, BR, BC, TR, PK, DVP = CFG.threads, CFG.BR, CFG.BC, CFG.TR, CFG.PK, CFG.DVP
// The number of row groups, of column lanes, and of runs of 32 invocations side by side along the
// columns (WA).
//% set RG = BR // TR
//% set CL = NT // RG
//% set WA = CL // 8
// query_block reads this: a call may have several dispatches, each for a part of the call.
//% set ONE_DISPATCH = false
// Number of vectors of an invocation: of rows, of keys, and of columns of dst.
//% set RV, CV, DV = TR // 4, BC // CL // 4, DVP // CL // 4
// Number of vectors in a row of a chunk of q, k and v, and how many vectors of a chunk an
// invocation loads.
//% set QV, KV, VV = BR // 4, BC // 4, DVP // 4
//% set QL, KL, VL = 8 * QV // NT, 8 * KV // NT, 8 * VV // NT
// Number of vectors of v in one load; these are neighbours in memory.
//% set VPL = 2 if VT == "f16" and DVP == 128 else 1
// Number of parts of p; each part has WN chunks of 8 keys: NE chunks from each of the WA runs.
//% set PARTS = BC // PK
//% set NE = BC // CL // PARTS
//% set WN = WA * NE
// Distances between the vectors of an invocation: QH for rows, CL for keys, APART for columns of dst.
//% set QH = QV // RV
//% set APART = 1 if VPL == 2 else 8
//% set log2 = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5}

// The axes of a_tile and b_tile are: depth or key; vector of an invocation; position. In a_tile,
// stage t of q, or chunk t of p, begins at position QH * t. In b_tile, stage t of k or v begins at
// position CL * t.
//% macro memory()
var<workgroup> a_tile: array<array<array<vec4<f32>, ${[2, WN] | max * QH}>, ${RV}>, 8>;
var<workgroup> b_tile: array<array<array<vec4<f32>, ${2 * CL}>, ${[CV, DV] | max}>, 8>;
//% endmacro

// This invocation's vectors: of rows from `at_row` on, of keys from `column`, of columns of dst from
// `at_value`; it stores p from `p_to` on. 32 neighbouring invocations take 4 x 8 groups of rows and
// columns; four neighbours take two groups of rows and two of columns.
//% macro position()
  let w = li >> 5u;
  let lr = (li & 1u) | ((li >> 2u) & 2u);
  let lc = ((li >> 1u) & 3u) | ((li >> 2u) & 4u);
  let column = (w % ${WA}u) * 8u + lc;
  let at_value = ${"column * %du" % DV if VPL == 2 else "(w %% %du) * %du + lc" % (WA, 8 * DV)};
  let at_row = (w / ${WA}u) * 4u + lr;
  let p_to = (w % ${WA}u) * ${QH}u + at_row;
//% endmacro

// Declares x0_0 .. as vectors of zeros.
//% macro zeros(x, rows, vectors)
//% for i in range(rows)
//% for j in range(vectors)
  var ${x}${i}_${j} = vec4<f32>();
//% endfor
//% endfor
//% endmacro

// Adds the products of step n of a chunk: rows of a, vectors of b. With `down`, the order is along
// the columns, and a is loaded first.
//% macro multiply(into, n, a_at, stage, vectors, down)
      {
//% for x in ("ab" if down else "ba")
//% for j in range(vectors if x == "b" else 0)
        let b${j} = b_tile[${n}][${j}][column + ${stage * CL}u];
//% endfor
//% for r in range(RV if x == "a" else 0)
        let a${r} = a_tile[${n}][${r}][${a_at}];
//% endfor
//% endfor
        ${outer_product.fma_components(TR, 4 * vectors, down, into, "a", "b")}
      }
//% endmacro
