// The epilogue of a product: dst = activation(scale * sum + bias + residual), and its stores.

// Bias and residual are bound as words: kind 0 is none, 1 f32, 2 f16.
//% macro functions(terms=("bias", "residual"))
fn word_value(word: u32, i: u32, kind: u32) -> f32 {
  let pair = unpack2x16float(word);
  return select(bitcast<f32>(word), select(pair.x, pair.y, (i & 1u) == 1u), kind == 2u);
}

//% for t in terms
fn ${t}_value(i: u32) -> f32 {
  return word_value(${t}_mem[select(i, i >> 1u, p.${t}_kind == 2u)], i, p.${t}_kind);
}
//% endfor

// Activation `kind` of x: the operations of ops.toml that have such a number. All of them return
// NaN for NaN.
//% set gates = ACTIVATIONS | selectattr("gate") | list
//% set gate = namespace(text=gates[0].gate.text)
//% for row in gates[1:]
//% set gate.text = "select(" ~ gate.text ~ ", " ~ row.gate.text ~ ", kind == " ~ row.activation ~ "u)"
//% endfor
fn activate(x: vec4<f32>, kind: u32) -> vec4<f32> {
//% for row in ACTIVATIONS if not row.gate
  if (kind == ${row.activation}u) {
${row.inline("f32", 4)}
  }
//% endfor
  // x times the logistic function of a gate.
  let u = ${gate.text};
  ${gated("f32", 4)}
}
//% endmacro

// Bias, residual and activation of four columns of one row of dst; `has_epilogue` is true if the
// call has any of them.
//% macro of_rows()
fn has_epilogue() -> bool { return (p.bias_kind | p.residual_kind | p.activation) != 0u; }

fn epilogue(scaled: vec4<f32>, bias_row: u32, residual_row: u32, columns: vec4<u32>) -> vec4<f32> {
  var v = scaled;
  let cols = min(columns, vec4<u32>(p.cols - 1u));
  if (p.bias_kind != 0u) {
    let i = vec4<u32>(bias_row) + cols * p.bias_cs;
    v += vec4<f32>(bias_value(i.x), bias_value(i.y), bias_value(i.z), bias_value(i.w));
  }
  if (p.residual_kind != 0u) {
    let i = vec4<u32>(residual_row) + cols * p.residual_cs;
    v += vec4<f32>(residual_value(i.x), residual_value(i.y), residual_value(i.z), residual_value(i.w));
  }
  if (p.activation != 0u) { v = activate(v, p.activation); }
  return v;
}
//% endmacro

// Scales the sums, applies the epilogue and stores the tile: in vectors of DV along the rows of
// dst, or along its columns where TRANSPOSED. `times` is the text of a factor of `at_col`, or
// empty.
//% macro store_tile(TM, TN, LM, LN, DV, TRANSPOSED=false, times="")
  let dst_start = dst_batch(batch);
  // This is selected here, at the stores, because an earlier selection would cost 2.5 % of the
  // time.
  var factor = select(p.scale, 1.0f, p.is_partial == 1u);
  if (has_epilogue()) {
${_apply(TM, TN, LM, LN, times)}
    factor = 1.0f;
  }
//% if TRANSPOSED
${_store_columns(TM, TN, LM, LN, times)}
//% else
${_store_rows(TM, TN, LM, LN, DV, times)}
//% endif
//% endmacro

// This is a loop over an array, because unrolled code would be larger than the product.
//% macro _apply(TM, TN, LM, LN, times)
    var c = array<vec4<f32>, ${TM * TN // 4}>(
//% for i in range(TM)
//% for j in range(TN // 4)
      c${i}_${j},
//% endfor
//% endfor
    );
    let bias_start = bias_batch(batch);
    let residual_start = residual_batch(batch);
    for (var n = 0u; n < ${TM * TN // 4}u; n += 1u) {
      let i = n / ${TN // 4}u;
      let j = n % ${TN // 4}u;
      let row = min(row0 + (at_row + (i >> 2u) * ${LM}u) * 4u + (i & 3u), p.rows - 1u);
      let m = vec4<u32>(col0 + (at_col${times} + j * ${LN}u) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
      c[n] = epilogue(c[n] * factor, bias_at(bias_start, row, 0u), residual_at(residual_start, row, 0u), m);
    }
//% for i in range(TM)
//% for j in range(TN // 4)
    c${i}_${j} = c[${i * (TN // 4) + j}];
//% endfor
//% endfor
//% endmacro

//% macro _store_rows(TM, TN, LM, LN, DV, times)
//% for i in range(TM)
  {
    let row = row0 + (at_row + ${i // 4 * LM}u) * 4u + ${i % 4}u;
    if (row < p.rows) {
//% for j in range(TN // 4)
      let m${j} = col0 + (at_col${times} + ${j * LN}u) * 4u;
//% if DV == 4
      if (m${j} < p.cols) { dst_store(dst_at(dst_start, row, m${j} / 4u), factor * c${i}_${j}); }
//% else
//% for e in range(4)
      if (m${j} + ${e}u < p.cols) { dst_store(dst_at(dst_start, row, m${j} + ${e}u), factor * c${i}_${j}[${e}]); }
//% endfor
//% endif
//% endfor
    }
  }
//% endfor
//% endmacro

//% macro _store_columns(TM, TN, LM, LN, times)
//% for i in range(TM // 4)
  {
    let row = row0 + (at_row + ${i * LM}u) * 4u;
    if (row < p.rows) {
//% for j in range(TN // 4)
      let m${j} = col0 + (at_col${times} + ${j * LN}u) * 4u;
//% for e in range(4)
      if (m${j} + ${e}u < p.cols) { dst_store(dst_at(dst_start, m${j} + ${e}u, row / 4u), factor * ${column_vector(i, j, e)}); }
//% endfor
//% endfor
    }
  }
//% endfor
//% endmacro

// Four rows of one column of the sums: rows 4 i to 4 i + 3, element e of vector j.
//% macro column_vector(i, j, e)
vec4<f32>(c${4 * i}_${j}[${e}], c${4 * i + 1}_${j}[${e}], c${4 * i + 2}_${j}[${e}], c${4 * i + 3}_${j}[${e}])
//%- endmacro

// activation(scale * sum + bias) where rows are output channels, `channel0` the group's first. The
// rows of an invocation's block pass through c0 one after the other and are back in place at the
// end. Unrolled, this code would be larger than the product; and an indexed array would not stay in
// registers.
//% macro of_channels(TM, TN, LM)
  let factor = select(p.scale, 1.0f, p.is_partial == 1u);
//% for i in range(TM)
//% for j in range(TN // 4)
  c${i}_${j} *= factor;
//% endfor
//% endfor
  if ((p.bias_kind | p.activation) != 0u) {
    for (var i = 0u; i < ${TM}u; i += 1u) {
      let row = min(row0 + (at_row + (i >> 2u) * ${LM}u) * 4u + (i & 3u), p.rows - 1u);
      var bias = 0.0f;
      if (p.bias_kind != 0u) { bias = bias_value(p.bias_off + (channel0 + row) * p.bias_os); }
//% for j in range(TN // 4)
      var v${j} = c0_${j} + bias;
      if (p.activation != 0u) { v${j} = activate(v${j}, p.activation); }
//% for i in range(TM - 1)
      c${i}_${j} = c${i + 1}_${j};
//% endfor
      c${TM - 1}_${j} = v${j};
//% endfor
    }
  }
//% endmacro
