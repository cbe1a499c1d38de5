// Philox4x32-10, the counter-based generator of Salmon et al. 2011, and the numbers that kernels
// compute from its words.

// The high half of the product of a u32 and a constant, computed from halves, because WGSL has no
// such product. If the halves of the constant add up to less than 2^16, the two middle products and
// a carry fit into 32 bits.
//% macro high(name, x, factor)
//% set low, top = factor % 65536, factor // 65536
  let ${name}_l = ${x} & 0xffffu;
  let ${name}_h = ${x} >> 16u;
  let ${name}_m = ${name}_h * ${low}u + ((${name}_l * ${low}u) >> 16u);
//% if low + top < 65536
  let ${name} = ${name}_h * ${top}u + ((${name}_l * ${top}u + ${name}_m) >> 16u);
//% else
  let ${name}_n = ${name}_l * ${top}u + (${name}_m & 0xffffu);
  let ${name} = ${name}_h * ${top}u + (${name}_m >> 16u) + (${name}_n >> 16u);
//% endif
//% endmacro

// draw(i) returns the four words of block i of a call. The state holds the key in two words and the
// counter of block 0 in four words; a call advances the first two words of the counter. Without a
// state the seed is the key, and the counter begins at 0.
//% macro functions()
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
  var c = counter;
  var k = key;
//% for round in range(10)
  {
    ${high("a", "c.x", 0xD2511F53)}
    ${high("b", "c.z", 0xCD9E8D57)}
    c = vec4<u32>(b ^ c.y ^ k.x, c.z * 0xCD9E8D57u, a ^ c.w ^ k.y, c.x * 0xD2511F53u);
    k += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
  }
//% endfor
  return c;
}

fn draw(i: u32) -> vec4<u32> {
  var key = vec2<u32>(p.seed_lo, p.seed_hi);
  var counter = vec4<u32>(i, 0u, 0u, 0u);
  if (p.has_state == 1u) {
    key = vec2<u32>(state_load(p.state_off), state_load(p.state_off + p.state_ws));
    let c0 = state_load(p.state_off + 2u * p.state_ws);
    let c1 = state_load(p.state_off + 3u * p.state_ws);
    let carry = select(0u, 1u, c0 + i < c0);
    counter = vec4<u32>(
      c0 + i, c1 + carry, state_load(p.state_off + 4u * p.state_ws), state_load(p.state_off + 5u * p.state_ws),
    );
  }
  return philox(counter, key);
}
//% endmacro
