// Reads four numbers of a block that a device holds in the form of a file. The library `raw`, which
// has one file for each type, has the function four(at, i): numbers 4 i to 4 i + 3 of the block at
// byte `at`.

//% macro functions()
fn raw_byte(at: u32) -> u32 { return (data_mem[at >> 2u] >> ((at & 3u) << 3u)) & 0xffu; }
fn raw_half(at: u32) -> u32 { return raw_byte(at) | (raw_byte(at + 1u) << 8u); }
fn raw_word(at: u32) -> u32 { return raw_half(at) | (raw_half(at + 2u) << 16u); }
fn raw_float(at: u32) -> f32 { return bitcast<f32>(f32_bits_of_f16(raw_half(at))); }
fn raw_nibble(at: u32, k: u32) -> u32 { return (raw_byte(at + (k >> 1u)) >> ((k & 1u) << 2u)) & 15u; }
fn bytes_of(word: u32) -> vec4<u32> {
  return (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu);
}
//% if raw.ENTRY
// The table has entries of ${raw.ENTRY} numbers, which are signed bytes. Returns four numbers of
// entry k; if it has 8 numbers, the first four for even i and the last four for odd i.
fn entry(k: u32, i: u32) -> vec4<f32> {
  let word = table_load(p.table_off + p.table_ws * ${"(2u * k + (i & 1u))" if raw.ENTRY == 8 else "k"});
  let bytes = bitcast<vec4<i32>>(vec4<u32>(word) << vec4<u32>(24u, 16u, 8u, 0u));
  return vec4<f32>(bytes >> vec4<u32>(24u));
}
// Seven bits, and an eighth bit that makes the number of set bits even.
fn all_signs(bits: u32) -> u32 { return (bits & 127u) | ((countOneBits(bits & 127u) & 1u) << 7u); }
fn signed(x: vec4<f32>, signs: u32, i: u32) -> vec4<f32> {
  let own = vec4<u32>(signs >> ((i & 1u) << 2u)) & vec4<u32>(1u, 2u, 4u, 8u);
  return select(x, -x, own != vec4<u32>(0u));
}
//% endif
${raw.functions()}
//% endmacro
