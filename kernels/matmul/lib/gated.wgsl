// The columns of products that may be gated, and their epilogue. A column belongs to a row of the
// weights. Columns are numbered in the order in which workgroups take them: in a gated product, each
// gate is followed by the column that it multiplies, and `p.gated` is the number of pairs, 0
// without gates.

// Functions of columns. `count` is the number of columns; `to`, `bias` and `residual` are the
// indices of the first elements of dst, the bias and the residual. `more` are further parameters of
// the functions, which these expressions may name.
//% macro functions(count="p.rows", more="", to="p.dst_off", bias="p.bias_off", residual="")
//% set given = more|replace(": u32", "")
// The row of the weights with which column v is computed.
fn row_of(v: u32) -> u32 { return select(v, (v >> 1u) + (v & 1u) * p.gated, p.gated != 0u); }

fn bias_of(v: u32${more}) -> f32 { return bias_value(${bias} + row_of(min(v, ${count} - 1u)) * p.bias_ms); }
//% if residual
fn residual_of(v: u32${more}) -> f32 { return residual_value(${residual} + min(v, ${count} - 1u) * p.residual_ms); }
//% endif

// Stores columns v to v + 3 (v is a multiple of four) to dst, with bias and activation.
fn store_four(sums: vec4<f32>, v: u32${more}) {
  var y = sums;
  if (p.bias_kind != 0u) { y += vec4<f32>(bias_of(v${given}), bias_of(v + 1u${given}), bias_of(v + 2u${given}), bias_of(v + 3u${given})); }
//% if residual
  if (p.residual_kind != 0u) {
    y += vec4<f32>(residual_of(v${given}), residual_of(v + 1u${given}), residual_of(v + 2u${given}), residual_of(v + 3u${given}));
  }
//% endif
  var z = y;
  if (p.activation != 0u) { z = activate(y, p.activation); }
  if (p.gated != 0u) {
    let at = v >> 1u;
    if (at < p.gated) { dst_store(${to} + at * p.dst_ms, z.x * y.y); }
    if (at + 1u < p.gated) { dst_store(${to} + (at + 1u) * p.dst_ms, z.z * y.w); }
    return;
  }
//% for j in range(4)
  if (v + ${j}u < ${count}) { dst_store(${to} + (v + ${j}u) * p.dst_ms, z[${j}]); }
//% endfor
}
//% endmacro
