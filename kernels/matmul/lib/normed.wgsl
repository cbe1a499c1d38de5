// Code that the bodies of rms_norm_linear share. Columns are numbered in the order in which
// workgroups take them: in a gated product, each gate is followed by the column that it multiplies.

//% macro functions()
${epilogue.functions(("bias",))}

// The row of the weights with which column v is computed.
fn row_of(v: u32) -> u32 { return select(v, (v >> 1u) + (v & 1u) * p.gated, p.gated != 0u); }

// The factor of the sums, from the sum of the row's squares.
fn factor_of(squares: f32) -> f32 { return inverseSqrt(squares / f32(p.depth) + p.eps); }

fn bias_of(v: u32) -> f32 { return bias_value(p.bias_off + row_of(min(v, p.rows - 1u)) * p.bias_ms); }

// Stores columns v to v + 3 (v is a multiple of four) to dst, with bias and activation.
fn store_four(sums: vec4<f32>, v: u32) {
  var y = sums;
  if (p.bias_kind != 0u) { y += vec4<f32>(bias_of(v), bias_of(v + 1u), bias_of(v + 2u), bias_of(v + 3u)); }
  var z = y;
  if (p.activation != 0u) { z = activate(y, p.activation); }
  if (p.gated != 0u) {
    let at = v >> 1u;
    if (at < p.gated) { dst_store(p.dst_off + at * p.dst_ms, z.x * y.y); }
    if (at + 1u < p.gated) { dst_store(p.dst_off + (at + 1u) * p.dst_ms, z.z * y.w); }
    return;
  }
//% for j in range(4)
  if (v + ${j}u < p.rows) { dst_store(p.dst_off + (v + ${j}u) * p.dst_ms, z[${j}]); }
//% endfor
}
//% endmacro
