// Sort keys: the bits of elements as unsigned numbers of the same order.
//
// p.kind is 0 for unsigned numbers and bool, 1 for signed numbers, and 2 for floats, whose infinity is
// p.infinity. -0 equals 0; NaN, whatever its sign and bits, is last in both orders.

//% macro functions(S, descending="p.descending")
//% set all = {1: "0xffu", 2: "0xffffu", 4: "0xffffffffu"}[S]
//% set sign = {1: "0x80u", 2: "0x8000u", 4: "0x80000000u"}[S]
fn order_of(bits: u32) -> u32 {
  var key = bits ^ select(0u, ${sign}, p.kind == 1u);
  if (p.kind == 2u) {
    let magnitude = bits & (${all} >> 1u);
    if (magnitude > p.infinity) { return ${all}; }
    key = select(bits | ${sign}, ${all} ^ bits, (bits >= ${sign}) & (magnitude != 0u));
  }
  return select(key, ${all} - key, ${descending} == 1u);
}
//% endmacro
