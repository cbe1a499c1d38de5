// Functions of one word or one index.

//% macro quotient()
// a / b. If the quotient is trivial, there is no division, because a division takes as long as a
// load.
fn quotient(a: u32, b: u32) -> u32 {
  if (b == 1u) { return a; }
  if (a < b) { return 0u; }
  return a / b;
}
//% endmacro

//% macro half_of()
// Element i of an f16 tensor, from the word that contains it.
fn half_of(word: u32, i: u32) -> f32 {
  let pair = unpack2x16float(word);
  return select(pair.x, pair.y, (i & 1u) == 1u);
}
//% endmacro
