// /// kernel
// doc = """
// Random integers in [low, high): low + floor(u (high - low) / 2^64), where u are 64 random bits.
//
// Element i in C order takes two words of block i // 2 of Philox4x32-10: word 2 (i % 2) as the high
// word, and word 2 (i % 2) + 1 as the low word. The relative difference between the probabilities
// of two integers is at most (high - low) / 2^64. high - low counts modulo 2^32, and 0 stands for
// 2^32. `seed` and `state` are as in `rand`."""
// source = "Salmon, Moraes, Dror and Shaw 2011; Lemire 2019 (the product in place of a remainder)"
// axes.S = [4]
// axes.V = [1, 4]
// inputs.state = { dtype = "u32", optional = true, index = false, axes = "w", doc = "(6,): two words of the key, four of the counter." }
// outputs.dst = { dtype = "*", dtypes = ["int32", "uint32"], bind = "'vec4<u32>' if V == 4 else 'u32'" }
// params.has_state = { type = "u32", value = "1 if state else 0" }
// params.first = { type = "u32" }
// params.low = { type = "bits", of = "int64", arg = true, doc = "The least integer." }
// params.high = { type = "bits", of = "int64", arg = true, doc = "One more than the largest integer." }
// params.seed = { type = "bits", of = "int64", default = 0, doc = "The key, if there is no state." }
// moves_bytes = true
// iterate = "nd"
// uses = ["words", "philox"]
// grid = "cdiv(it.total, 256) if V == 4 else cdiv(it.total, 1024)"
// ///

// One invocation draws two blocks, which give four neighbouring elements.
${philox.functions()}

// The high half of a product, computed from halves.
fn high_product(a: u32, b: u32) -> u32 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let m = ah * bl + ((al * bl) >> 16u);
  let n = al * bh + (m & 0xffffu);
  return ah * bh + (m >> 16u) + (n >> 16u);
}

// Bits 64 to 95 of (high 2^32 + low) * range.
fn below(high: u32, low: u32, range: u32) -> u32 {
  let middle = high * range;
  let sum = middle + high_product(low, range);
  let found = high_product(high, range) + select(0u, 1u, sum < middle);
  return select(found, high, range == 0u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let q = group_id(wg) * 256u + li;
  if (q >= ${"p.total" if V == 4 else "(p.total + 3u) / 4u"}) { return; }
  let v = draw(2u * (p.first + q));
  let w = draw(2u * (p.first + q) + 1u);
  let range = p.high_lo - p.low_lo;
  // low and high have 64 bits; the upper 32 bits do not matter modulo 2^32.
  _ = p.high_hi ^ p.low_hi;
  let bits = p.low_lo + vec4<u32>(
    below(v.x, v.y, range), below(v.z, v.w, range), below(w.x, w.y, range), below(w.z, w.w, range),
  );
  ${words.store_four(S, V, "q", "bits")}
}
