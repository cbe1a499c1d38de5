// Finds elements that are not zero, for the bodies of nonzero.
//% import "kernels/lib/words.wgsl" as words

// True if element i of src is not zero; `keep` masks off the sign of a float.
//% macro test(S, i)
//% if S == 8
any((src_mem[${i}] & vec2<u32>(p.keep_lo, p.keep_hi)) != vec2<u32>())
//% else
(${words.bits("src_mem", S, i)} & p.keep_lo) != 0u
//% endif
//% endmacro
