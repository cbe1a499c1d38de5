// The product of two tiles in workgroup memory as a sum of outer products, one for each k.
//
// A workgroup computes BM rows and BN columns of dst, and an invocation TM x TN sums of them. 32
// neighbouring invocations form LM rows and LN columns. The vectors of rows of one invocation lie LM
// vectors apart, and its vectors of columns LN vectors apart, so that neighbours read neighbouring
// vectors.

// Workgroup memory: columns of dst come from a_tile, rows from b_tile.
//% macro memory(BM, BN, BK)
var<workgroup> a_tile: array<array<vec4<f32>, ${BN // 4}>, ${BK}>;
var<workgroup> b_tile: array<array<vec4<f32>, ${BM // 4}>, ${BK}>;
//% endmacro

// `at_row` and `at_col` are this invocation's first vectors of the tiles. 32 neighbouring
// invocations take LM x LN blocks of 4 x 4 sums; their other blocks lie LM and LN vectors further
// on. Four neighbouring invocations use two vectors of each tile.
//% macro lane_layout(TM, TN, LM, LN, BN)
//% set WARPS_ACROSS = BN // (LN * TN)
  let w = li >> 5u;
//% if LM == 4
  let lr = (li & 1u) | ((li >> 2u) & 2u);
  let lc = ((li >> 1u) & 3u) | ((li >> 2u) & 4u);
//% else
  let lc = (li & 1u) | ((li >> 1u) & 2u);
  let lr = ((li >> 1u) & 1u) | ((li >> 2u) & 6u);
//% endif
  let at_row = (w / ${WARPS_ACROSS}u) * ${LM * TM // 4}u + lr;
  let at_col = (w % ${WARPS_ACROSS}u) * ${LN * TN // 4}u + lc;
//% endmacro

// The sums c<row>_<vector of columns>: row i is `(at_row + i // 4 * LM) * 4 + i % 4` of the
// workgroup's part, vector j starts at column `(at_col + j * LN) * 4`.
//% macro accumulators(TM, TN)
//% for i in range(TM)
//% for j in range(TN // 4)
  var c${i}_${j} = vec4<f32>();
//% endfor
//% endfor
//% endmacro

// Adds the product of the two tiles to the sums.
//% macro multiply(TM, TN, LM, LN, BK)
//% for k in range(BK)
    {
${load_vectors(k, TM, TN, LM, LN)}
${fma_vectors(TM, TN)}
    }
//% endfor
//% endmacro

// The vectors of one k: r<i> of rows and q<j> of columns. `stage` selects one of several tiles.
//% macro load_vectors(k, TM, TN, LM, LN, stage="")
//% for i in range(TM // 4)
      let r${i} = b_tile${stage}[${k}][at_row + ${i * LM}u];
//% endfor
//% for j in range(TN // 4)
      let q${j} = a_tile${stage}[${k}][at_col + ${j * LN}u];
//% endfor
//% endmacro

// The multiply-adds of one k, row by row. With `there_and_back`, every second row begins at its
// end.
//% macro fma_vectors(TM, TN, there_and_back=false)
//% for i in range(TM)
//% for n in range(TN // 4)
//% set j = TN // 4 - 1 - n if there_and_back and i % 2 else n
      c${i}_${j} = fma(vec4<f32>(r${i // 4}[${i % 4}]), q${j}, c${i}_${j});
//% endfor
//% endfor
//% endmacro

// The multiply-adds of one k, one component at a time, along the rows or down the columns. Every second
// row or column begins at its end, so each multiply-add shares an operand with the previous multiply-add.
// `c`, `r` and `q` are the names of sums and vectors.
//% macro fma_components(TM, TN, down, c="c", r="r", q="q")
//% set lines, steps = (TN, TM) if down else (TM, TN)
//% for line in range(lines)
//% for n in range(steps)
//% set there = steps - 1 - n if line % 2 else n
//% set i, j = (there, line) if down else (line, there)
      ${c}${i}_${j // 4}[${j % 4}] = fma(${r}${i // 4}[${i % 4}], ${q}${j // 4}[${j % 4}], ${c}${i}_${j // 4}[${j % 4}]);
//% endfor
//% endfor
//% endmacro

// Four neighbours from element n on of the vectors q_0, q_1, ...
//% macro neighbours(q, n)
vec4<f32>(${q}_${n // 4}[${n % 4}], ${q}_${(n + 1) // 4}[${(n + 1) % 4}], ${q}_${(n + 2) // 4}[${(n + 2) % 4}], ${q}_${(n + 3) // 4}[${(n + 3) % 4}])
//%- endmacro
