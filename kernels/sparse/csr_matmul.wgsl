// /// kernel
// doc = """
// A sparse matrix in compressed rows times a dense matrix: dst[i] is the sum of data[e] * x[indices[e]]
// over the elements e from indptr[i] up to indptr[i + 1].
//
// Sums are f32. Their order depends only on the shapes, so a call gives the same bits each time.
// Elements at the same place add up. Offsets are limited to [0, elements], and a row that ends
// before it begins is empty. An index outside [0, K) adds nothing and raises IndexRangeError at the
// next synchronisation."""
// source = "scipy.sparse.csr_array (meaning)"
// axes.T = { values = ["f32", "f16"], pick = "dtype(data)" }
// axes.X = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// when = ["D == ('f16' if T == X == 'f16' else 'f32')"]
// inputs.data = { dtype = "T", axes = "e", doc = "(elements,)" }
// inputs.indices = { dtype = "i32", axes = "e", doc = "(elements,): the column of each element." }
// inputs.indptr = { dtype = "i32", axes = "m", doc = "(M + 1,): the first element of each row, and the end of the last row." }
// inputs.x = { dtype = "X", axes = "k n", doc = "(K, N)" }
// outputs.dst = { dtype = "D", axes = "m n", doc = "(M, N), float16 if data and x are float16, else float32." }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// params.rows = { type = "u32", value = "dst.shape[0]" }
// params.width = { type = "u32", value = "dst.shape[1]" }
// params.inner = { type = "u32", value = "x.shape[0]" }
// params.elements = { type = "u32", value = "data.shape[0]" }
// params.lane_bits = { type = "u32" }
// params.column_bits = { type = "u32" }
// params.tiles = { type = "u32" }
// iterate = "none"
// faults = true
// bytes = "touched(data, indices, indptr, dst) + data.size * x.shape[1] * x.dtype.itemsize"
// operations = "2 * data.size * x.shape[1]"
// grid = "cdiv(dst.shape[0], 256 >> (lane_bits + column_bits)) * tiles"
// ///

// 2^column_bits neighbouring invocations take neighbouring columns of x, and 2^lane_bits lanes
// share the elements of a row; each lane adds its elements in order.
var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let lanes = 1u << p.lane_bits;
  let columns = 1u << p.column_bits;
  let block = g / p.tiles;
  let column = (g - block * p.tiles) * columns + (li & (columns - 1u));
  let lane = (li >> p.column_bits) & (lanes - 1u);
  let bits = p.lane_bits + p.column_bits;
  let row = block * (256u >> bits) + (li >> bits);
  var sum = 0.0f;
  if ((row < p.rows) & (column < p.width)) {
    let begin = u32(max(indptr_load(p.indptr_off + row * p.indptr_ms), 0));
    let end = u32(max(indptr_load(p.indptr_off + (row + 1u) * p.indptr_ms), 0));
    let last = min(end, p.elements);
    let start = p.x_off + column * p.x_ns;
    for (var e = min(begin, p.elements) + lane; e < last; e += lanes) {
      let k = bitcast<u32>(indices_load(p.indices_off + e * p.indices_es));
      if (k < p.inner) {
        sum += data_load(p.data_off + e * p.data_es) * x_load(start + k * p.x_ks);
      } else if (column == 0u) {
        fault(e, k, select(0u, 0xffffffffu, k >= 0x80000000u));
      }
    }
  }
  // The second half of the lanes is added to the first half, until one lane is left.
  sums[li] = sum;
  for (var half = lanes >> 1u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (lane < half) { sums[li] += sums[li + (half << p.column_bits)]; }
  }
  if ((lane == 0u) & (row < p.rows) & (column < p.width)) {
    dst_store(p.dst_off + row * p.dst_ms + column * p.dst_ns, sums[li]);
  }
}
