// /// kernel
// doc = """
// The indices of the elements that are not zero, in C order: dst[:, i] has the indices of element i.
//
// dst is (src.ndim, count): `nonzero_offsets` gives the count and the offsets. NaN is not zero,
// -0.0 is zero. src has one to six axes."""
// source = "numpy nonzero"
// axes.S = [1, 2, 4, 8]
// include chunk
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>'" }
// inputs.offsets = { dtype = "*", dtypes = ["int32"], bind = "'u32'", index = false, axes = "n" }
// outputs.dst = { dtype = "*", dtypes = ["int32"], bind = "'u32'", index = false, axes = "a n" }
// params."keep_lo keep_hi" = { type = "u32" }
// params.count = { type = "u32", value = "dst.shape[1]" }
// params.axes = { type = "u32", value = "dst.shape[0]" }
// params."size1 size2 size3 size4 size5" = { type = "u32" }
// iterate = "nd"
// moves_bytes = true
// uses = ["nonzero"]
// grid = "cdiv(it.total, CFG.UNROLL * CFG.threads)"
// ///

//% set UNROLL, WG = CFG.UNROLL, CFG.threads
//% set WORDS = UNROLL * WG // 32
// One workgroup takes a chunk; each invocation takes UNROLL elements that lie a workgroup apart. An
// element that is not zero sets a bit in one of WORDS words; its place in dst is the number of bits
// before it in this chunk and in earlier chunks.
var<workgroup> bits: array<atomic<u32>, ${WORDS}>;
var<workgroup> before: array<u32, ${WORDS}>;

fn store_index(i: u32, place: u32) {
  let sizes = array<u32, 6>(1u, p.size1, p.size2, p.size3, p.size4, p.size5);
  let at = p.dst_off + place * p.dst_ns;
  var r = i;
  for (var a = p.axes - 1u; a > 0u; a -= 1u) {
    let q = r / sizes[a];
    dst_mem[at + a * p.dst_as] = r - q * sizes[a];
    r = q;
  }
  dst_mem[at] = r;
}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  if (li < ${WORDS}u) { atomicStore(&bits[li], 0u); }
  workgroupBarrier();
  let first = g * ${UNROLL * WG}u + li;
//% for k in range(UNROLL)
  let s${k} = src_index(min(first + ${WG * k}u, p.total - 1u));
  let x${k} = ${nonzero.test(S, "s" ~ k)};
//% endfor
//% for k in range(UNROLL)
  if (x${k} & (first + ${WG * k}u < p.total)) { atomicOr(&bits[${WG // 32 * k}u + (li >> 5u)], 1u << (li & 31u)); }
//% endfor
  workgroupBarrier();
  let word = li & ${WORDS - 1}u;
  var own = countOneBits(atomicLoad(&bits[word]));
  let ones = own;
  if (li < ${WORDS}u) { before[word] = own; }
  workgroupBarrier();
  for (var step = 1u; step < ${WORDS}u; step *= 2u) {
    let left = select(0u, before[max(word, step) - step], word >= step);
    workgroupBarrier();
    own += left;
    if (li < ${WORDS}u) { before[word] = own; }
    workgroupBarrier();
  }
  if (li < ${WORDS}u) { before[word] = own - ones; }
  workgroupBarrier();
  let base = offsets_mem[p.offsets_off + g * p.offsets_ns];
//% for k in range(UNROLL)
  {
    let w = ${WG // 32 * k}u + (li >> 5u);
    let all = atomicLoad(&bits[w]);
    let bit = 1u << (li & 31u);
    let place = base + before[w] + countOneBits(all & (bit - 1u));
    if (((all & bit) != 0u) & (place < p.count)) { store_index(first + ${WG * k}u, place); }
  }
//% endfor
  _ = p.keep_hi;  // only elements of eight bytes have a second word
}
