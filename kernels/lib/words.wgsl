// Bytes and halves inside 32-bit words.

//% macro functions()
// A mask of the bytes of the word at byte `at` that lie in [first, end).
fn below(n: u32) -> u32 { return select((1u << (n * 8u)) - 1u, 0xffffffffu, n >= 4u); }
fn word_mask(at: u32, first: u32, end: u32) -> u32 {
  let lo = clamp(first, at, at + 4u) - at;
  let hi = clamp(end, at, at + 4u) - at;
  return below(hi) & ~below(lo);
}
//% endmacro

// The bits of element i of an array of words, for elements of 1, 2 or 4 bytes.
//% macro bits(mem, size, i)
//% if size == 4
${mem}[${i}]
//% elif size == 2
((${mem}[(${i}) >> 1u] >> (((${i}) & 1u) << 4u)) & 0xffffu)
//% else
((${mem}[(${i}) >> 2u] >> (((${i}) & 3u) << 3u)) & 0xffu)
//% endif
//% endmacro

// Store element i into words that other invocations may share: only its own bits change.
//% macro store_shared(mem, size, i, value)
//% if size == 2
{
  let shift = ((${i}) & 1u) << 4u;
  atomicAnd(&${mem}[(${i}) >> 1u], ~(0xffffu << shift));
  atomicOr(&${mem}[(${i}) >> 1u], (${value}) << shift);
}
//% else
{
  let shift = ((${i}) & 3u) << 3u;
  atomicAnd(&${mem}[(${i}) >> 2u], ~(0xffu << shift));
  atomicOr(&${mem}[(${i}) >> 2u], (${value}) << shift);
}
//% endif
//% endmacro

// The same where two invocations may want the same element: one of their values stays whole.
//% macro replace(mem, size, i, value)
//% if size == 2
{
  let shift = ((${i}) & 1u) << 4u;
  ${merge(mem, "(" ~ i ~ ") >> 1u", "(0xffffu << shift)", "((" ~ value ~ ") << shift)")}
}
//% else
{
  let shift = ((${i}) & 3u) << 3u;
  ${merge(mem, "(" ~ i ~ ") >> 2u", "(0xffu << shift)", "((" ~ value ~ ") << shift)")}
}
//% endif
//% endmacro

// Store the bits of a mask into a word that others may be storing other bits of.
//% macro merge(mem, word, mask, bits)
{
  let place = ${word};
  var old = atomicLoad(&${mem}[place]);
  loop {
    let found = atomicCompareExchangeWeak(&${mem}[place], old, (old & ~${mask}) | ${bits});
    if (found.exchanged) { break; }
    old = found.old_value;
  }
}
//% endmacro
