// Tiles of products whose rows choose their weights (mul_mat_id): BM rows of one expert x BN columns.
//% set EACH = 4 if B == "f32" else 8
// How b is loaded for a half, 16 steps of k: the number of invocations for a row, and the number of
// rows in a round.
//% set ACROSS = CFG.BK // EACH
//% set ROWS = CFG.threads // ACROSS

// Workgroup memory holds elements, not vectors: several invocations must not write components of one
// vector.
//% macro memory()
${epilogue.functions()}

${gated.functions("p.cols", ", to: u32, bias: u32, residual: u32", "to", "bias", "residual")}

var<workgroup> a_tile: array<array<array<f32, 4>, ${CFG.BN // 4}>, ${CFG.BK}>;
var<workgroup> b_tile: array<array<array<f32, 4>, ${CFG.BM // 4}>, ${CFG.BK}>;
//% endmacro

// The row at place i of the rows that are sorted by experts.
//% macro sorted_row(i)
table_load(p.table_off + (4u * p.tiles_n + ${i}) * p.table_is)
//%- endmacro

// The tile of workgroup g: its `expert`, its `count` rows, from place `first` of the sorted rows
// on, and its columns from col0 on. All invocations of a tile without rows end here.
//% macro init()
  let tile = p.table_off + g / p.across * 4u * p.table_is;
  let expert = table_load(tile);
  let first = table_load(tile + p.table_is);
  let count = table_load(tile + 2u * p.table_is);
  if (count == 0u) { return; }
  let col0 = (g % p.across) * ${CFG.BN}u;
  let n = row_of(min(col0 + li, p.cols - 1u));
  let b_k = (li & ${ACROSS - 1}u) * ${EACH}u;
  let b_r = li / ${ACROSS}u;
  let b_row = ${sorted_row("first + min(b_r, count - 1u)")} / p.sharing;
  let b_from = p.b_off + b_row * p.b_rs + b_k / ${EACH}u;
  var b_v: vec4<${B}>;
//% endmacro

//% macro load_rows(unit)
    b_v = b_mem[b_from + ${unit}];
//% endmacro

//% macro store_rows()
    if (b_r < ${CFG.BM}u) {
//% set at = "[b_r >> 2u][b_r & 3u]"
//% if B == "f32"
//% for e in range(4)
      b_tile[b_k + ${e}u]${at} = b_v[${e}];
//% endfor
//% else
//% for e in range(4)
      let h${e} = unpack2x16float(b_v[${e}]);
      b_tile[b_k + ${2 * e}u]${at} = h${e}.x;
      b_tile[b_k + ${2 * e + 1}u]${at} = h${e}.y;
//% endfor
//% endif
    }
//% endmacro

//% macro vector(tile, k, at)
vec4<f32>(${tile}[${k}][${at}][0], ${tile}[${k}][${at}][1], ${tile}[${k}][${at}][2], ${tile}[${k}][${at}][3])
//%- endmacro

//% macro multiply()
//% for k in range(CFG.BK)
    {
//% for i in range(CFG.TM // 4)
      let r${i} = ${vector("b_tile", k, "at_row + %du" % (i * CFG.LM))};
//% endfor
//% for j in range(CFG.TN // 4)
      let q${j} = ${vector("a_tile", k, "at_col + %du" % (j * CFG.LN))};
//% endfor
${outer_product.fma_vectors(CFG.TM, CFG.TN, true)}
    }
//% endfor
//% endmacro

//% macro store()
  let bias = p.bias_off + (expert + p.first_expert) * p.bias_es;
//% for i in range(CFG.TM)
  {
    let row = (at_row + ${(i // 4) * CFG.LM}u) * 4u + ${i % 4}u;
    if (row < count) {
      let place = ${sorted_row("first + row")};
      let to = p.dst_off + place * p.dst_rs;
      let residual = p.residual_off + place * p.residual_rs;
//% for j in range(CFG.TN // 4)
      store_four(c${i}_${j}, col0 + (at_col + ${j * CFG.LN}u) * 4u, to, bias, residual);
//% endfor
    }
  }
//% endfor
//% endmacro
