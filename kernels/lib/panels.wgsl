// Products of panels: c[m][n] = sum over k of a[k][m] * b[k][n], where k counts rows of both.
//
// Operands are f32, their rows whole vectors, their row counts multiples of 16: no load in a loop
// needs a guard. 16 k at a time go through workgroup memory, while the next ones are on their way
// to registers. An invocation owns TR x TC sums, c{i}_{j} its row i and vector j.

//% macro memory(M, N)
var<workgroup> a_tile: array<array<vec4<f32>, ${M // 4}>, 16>;
var<workgroup> b_tile: array<array<vec4<f32>, ${N // 4}>, 16>;
//% endmacro

// The blocks of 4 x 4 sums of this invocation: rows from 4 * (at_row + 4 * i), vectors of columns
// at_col + 8 * j. 32 neighbours take 4 x 8 blocks, and a quad of them meets two rows of each panel.
//% macro lanes(N, TR, TC)
//% set warps = N // (8 * TC)
  let at_row = (li >> 5u) / ${warps}u * ${TR}u + ((li & 1u) | ((li >> 2u) & 2u));
  let at_col = (li >> 5u) % ${warps}u * ${2 * TC}u + (((li >> 1u) & 3u) | ((li >> 2u) & 4u));
//% endmacro

// Loads the first 16 k of operand x: from vector `start` of its memory on, vector `col` of each
// row on; `last`: the last vector of a row, where the panel may be wider.
//% macro first(x, edge, NT, start, col, last="")
//% set across = edge // 4
  let ${x}_k = li / ${across}u;
  let ${x}_i = li % ${across}u;
//% set at = col ~ " + " ~ x ~ "_i"
  var ${x}_pos = ${start} + ${x}_k * p.${x}_step + ${"min(" ~ at ~ ", " ~ last ~ ")" if last else at};
//% for u in range(16 * across // NT)
  var ${x}_v${u} = ${x}_mem[${x}_pos + ${u * NT // across}u * p.${x}_step];
//% endfor
//% endmacro

//% macro clear(TR, TC)
//% for i in range(TR)
//% for j in range(TC // 4)
  c${i}_${j} = vec4<f32>();
//% endfor
//% endfor
//% endmacro

// One round: the loaded 16 k to workgroup memory, the next ones to registers if there are `more`,
// and the products.
//% macro round(M, N, NT, TR, TC, more)
    workgroupBarrier();  // the last tiles have been read
//% for x, edge in (("a", M), ("b", N))
//% for u in range(4 * edge // NT)
    ${x}_tile[${x}_k + ${u * 4 * NT // edge}u][${x}_i] = ${x}_v${u};
//% endfor
//% endfor
    workgroupBarrier();
    if (${more}) {
//% for x, edge in (("a", M), ("b", N))
      ${x}_pos += 16u * p.${x}_step;
//% for u in range(4 * edge // NT)
      ${x}_v${u} = ${x}_mem[${x}_pos + ${u * 4 * NT // edge}u * p.${x}_step];
//% endfor
//% endfor
    }
//% for k in range(16)
    {
//% for i in range(TR // 4)
      let r${i} = a_tile[${k}][at_row + ${4 * i}u];
//% endfor
//% for j in range(TC // 4)
      let q${j} = b_tile[${k}][at_col + ${8 * j}u];
//% endfor
//% for i in range(TR)
//% for j in range(TC // 4)
      c${i}_${j} = fma(vec4<f32>(r${i // 4}[${i % 4}]), q${j}, c${i}_${j});
//% endfor
//% endfor
    }
//% endfor
//% endmacro

// The sums as an array, for loops that do something with each: unrolled, they would be larger than
// the product. Vector n belongs to row n / (TC / 4).
//% macro gathered(TR, TC)
array<vec4<f32>, ${TR * TC // 4}>(
//% for i in range(TR)
//% for j in range(TC // 4)
      c${i}_${j},
//% endfor
//% endfor
    )
//% endmacro
