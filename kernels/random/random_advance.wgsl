// /// kernel
// doc = """
// Advance the state of a random generator: add `blocks` to the first two words of its counter.
//
// A call of n elements takes cdiv(n, 4) blocks, a call of `randint` cdiv(n, 2)."""
// outputs.dst = { dtype = "u32", axes = "w", doc = "The state, (6,): two words of the key, four of the counter." }
// params.blocks = { type = "u32", arg = true, doc = "Blocks to pass over." }
// moves_bytes = true
// grid = "1"
// ///

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) wg: vec3<u32>) {
  if (group_id(wg) >= p.groups) { return; }
  let at = p.dst_off + 2u * p.dst_ws;
  let low = dst_mem[at] + p.blocks;
  if (low < p.blocks) { dst_mem[at + p.dst_ws] += 1u; }
  dst_mem[at] = low;
}
