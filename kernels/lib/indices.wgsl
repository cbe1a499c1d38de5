// Indices of int32 or int64: `lo` is their first word and `hi` their second. int32 has no second
// word (p.index_words is 1), so there `hi` is the first word, which has the same sign as a second
// word would have.

// Element i of the index in memory, as (lo, hi).
//% macro functions()
fn index_at(i: u32) -> vec2<u32> {
  let word = i * p.index_words;
  return vec2<u32>(index_mem[word], index_mem[word + p.index_words - 1u]);
}
//% endmacro

// True if the index is at least 0 and below 2^32. A negative int32 also gives true, but as u32 it
// is beyond any limit.
//% macro is_word(hi)
(p.index_words == 1u) | (${hi} == 0u)
//% endmacro

//% macro is_inside(lo, hi, limit="p.limit")
(${lo} < ${limit}) & (${is_word(hi)})
//% endmacro

// Reports the index as out of range; for an int32, the sign takes the place of the second word.
//% macro report(position, lo, hi)
let sign = select(0u, 0xffffffffu, ${lo} >= 0x80000000u);
fault(${position}, ${lo}, select(${hi}, sign, p.index_words == 1u));
//% endmacro
