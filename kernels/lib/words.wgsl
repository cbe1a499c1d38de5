// Bytes and halves inside 32-bit words.

//% macro functions()
// A mask of the lowest n bytes of a word; and, for the word at byte `at`, a mask of its bytes that
// lie in [first, end).
fn bytes_below(n: u32) -> u32 { return select((1u << ((n & 3u) * 8u)) - 1u, 0xffffffffu, n >= 4u); }
fn word_mask(at: u32, first: u32, end: u32) -> u32 {
  let lo = clamp(first, at, at + 4u) - at;
  let hi = clamp(end, at, at + 4u) - at;
  return bytes_below(hi) & ~bytes_below(lo);
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

// Stores element i in a word that other invocations may share: only its own bits change.
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

// Stores element i in a shared word. If two invocations store the same element, it gets all bits of one
// of their values.
//% macro replace(mem, size, i, value)
//% if size == 2
{
  let shift = ((${i}) & 1u) << 4u;
  ${store_masked(mem, "(" ~ i ~ ") >> 1u", "(0xffffu << shift)", "((" ~ value ~ ") << shift)")}
}
//% else
{
  let shift = ((${i}) & 3u) << 3u;
  ${store_masked(mem, "(" ~ i ~ ") >> 2u", "(0xffu << shift)", "((" ~ value ~ ") << shift)")}
}
//% endif
//% endmacro

// Stores the bits that a mask selects; other invocations may store the word's other bits at the same time.
//% macro store_masked(mem, word, mask, bits)
{
  let at = ${word};
  var old = atomicLoad(&${mem}[at]);
  loop {
    let found = atomicCompareExchangeWeak(&${mem}[at], old, (old & ~${mask}) | ${bits});
    if (found.exchanged) { break; }
    old = found.old_value;
  }
}
//% endmacro

// Stores the bits of elements 4 q to 4 q + 3 of the index space (or of a row, if its function of
// positions and its length are given): at once if V == 4, otherwise one by one, without elements
// past the end.
//% macro store_four(S, V, q, bits, place="dst_index(", end="p.total")
//% if V == 4
//% if S == 4
  dst_mem[${place}${q})] = ${bits};
//% elif S == 2
  dst_mem[${place}${q})] = vec2<u32>(${bits}.x | (${bits}.y << 16u), ${bits}.z | (${bits}.w << 16u));
//% else
  dst_mem[${place}${q})] = ${bits}.x | (${bits}.y << 8u) | (${bits}.z << 16u) | (${bits}.w << 24u);
//% endif
//% else
//% for k in range(4)
  if (4u * (${q}) + ${k}u < ${end}) {
    let d = ${place}4u * (${q}) + ${k}u);
//% if S == 4
    dst_mem[d] = ${bits}[${k}];
//% else
    ${store_shared("dst_mem", S, "d", bits ~ "[" ~ k ~ "]")}
//% endif
  }
//% endfor
//% endif
//% endmacro
