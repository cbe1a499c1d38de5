// Products of bytes: four neighbours along k in a word, and the sums of their products as i32.
//
// `S` is the type of the bytes, "i8" or "u8". A sum wraps modulo 2^32.

//% macro functions(S)
// Adds the products of one word of a row with words of four other rows.
fn dot4(a: u32, b: vec4<u32>) -> vec4<i32> {
//% if S == "i8"
  return vec4<i32>(dot4I8Packed(a, b.x), dot4I8Packed(a, b.y), dot4I8Packed(a, b.z), dot4I8Packed(a, b.w));
//% else
  return vec4<i32>(vec4<u32>(dot4U8Packed(a, b.x), dot4U8Packed(a, b.y), dot4U8Packed(a, b.z), dot4U8Packed(a, b.w)));
//% endif
}

// The word at byte k, with only the bytes that lie before `end`.
fn bytes_before(k: u32, end: u32) -> u32 {
  let some = (1u << (((end - k) & 3u) << 3u)) - 1u;
  return select(0u, select(some, 0xffffffffu, end - k > 3u), k < end);
}

// Transposes four words. A word of w belongs to one of four neighbouring k and has a byte of each
// of four rows; a word of the result belongs to one row and has the bytes of the four k.
fn transpose4(w: vec4<u32>) -> vec4<u32> {
  let even = (w.xz & vec2<u32>(0x00ff00ffu)) | ((w.yw & vec2<u32>(0x00ff00ffu)) << vec2<u32>(8u));
  let odd = ((w.xz >> vec2<u32>(8u)) & vec2<u32>(0x00ff00ffu)) | (w.yw & vec2<u32>(0xff00ff00u));
  return vec4<u32>(
    (even.x & 0xffffu) | (even.y << 16u), (odd.x & 0xffffu) | (odd.y << 16u),
    (even.x >> 16u) | (even.y & 0xffff0000u), (odd.x >> 16u) | (odd.y & 0xffff0000u),
  );
}
//% endmacro

// <x>_word(first, k, last): the bytes at four k, from k on, of the row that begins at `first`; k beyond
// `last` are clamped. Neighbouring k are `step` bytes apart.
//% macro gather(x, step)
fn ${x}_byte(i: u32) -> u32 { return (${x}_mem[i >> 2u] >> ((i & 3u) << 3u)) & 0xffu; }

fn ${x}_word(first: u32, k: u32, last: u32) -> u32 {
  return ${x}_byte(first + min(k, last) * ${step}) | (${x}_byte(first + min(k + 1u, last) * ${step}) << 8u) |
    (${x}_byte(first + min(k + 2u, last) * ${step}) << 16u) | (${x}_byte(first + min(k + 3u, last) * ${step}) << 24u);
}
//% endmacro

// -- the epilogue ---------------------------------------------------------------------

// bias_value(i): the bias is bound as words; kind 1 is f32, kind 2 is f16.
//% macro bias()
fn bias_value(i: u32) -> f32 {
  if (p.bias_kind == 1u) { return bitcast<f32>(bias_mem[i]); }
  return unpack2x16float(bias_mem[i >> 1u])[i & 1u];
}
//% endmacro

// scaled(sums, at, row, columns): a_scale * b_scale * sums + bias, of four columns of one row of dst;
// `at`: the start of the batch in a_scale, b_scale and bias.
//% macro scaled()
${bias()}
fn scaled(sums: vec4<i32>, at: vec3<u32>, row: u32, columns: vec4<u32>) -> vec4<f32> {
  var v = vec4<f32>(sums);
  let cols = min(columns, vec4<u32>(p.cols - 1u));
  if (p.has_a_scale != 0u) {
    let i = vec4<u32>(at.x) + cols * p.a_scale_cs;
    v *= vec4<f32>(a_scale_load(i.x), a_scale_load(i.y), a_scale_load(i.z), a_scale_load(i.w));
  }
  if (p.has_b_scale != 0u) { v *= b_scale_load(at.y + row * p.b_scale_rs); }
  if (p.bias_kind != 0u) {
    let i = vec4<u32>(at.z + row * p.bias_rs) + cols * p.bias_cs;
    v += vec4<f32>(bias_value(i.x), bias_value(i.y), bias_value(i.z), bias_value(i.w));
  }
  return v;
}
//% endmacro

// The values of `sums` that are stored to dst, for each dtype of dst.
//% macro finished(D, sums, row, columns)
//% if D == "i32"
${sums}
//%- else
scaled(${sums}, scales_at, ${row}, ${columns})
//%- endif
//% endmacro

// Must stand before `finished`: declares where the batch begins in both scales and in the bias.
//% macro scales_of_batch(D)
//% if D != "i32"
  let scales_at = vec3<u32>(a_scale_batch(batch), b_scale_batch(batch), bias_batch(batch));
//% endif
//% endmacro
