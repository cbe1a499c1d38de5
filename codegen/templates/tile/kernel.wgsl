// /// kernel
// doc = """
// Squared distances between the rows of two matrices: dst[m, n] = sum_k (a[m, k] - b[n, k])^2.
//
// Sums are f32."""
// configs.tile16 = { B = 16, BK = 16, T = 2, threads = 64 }
// configs.tile32 = { B = 32, BK = 16, T = 2, threads = 256 }
// axes.TILE = "configs"
// axes.T = ["f32", "f16"]
// pick.T = "dtype(a)"
// inputs.a = { dtype = "T", axes = "m k", doc = "(m, k)" }
// inputs.b = { dtype = "T", axes = "n k", doc = "(n, k)" }
// outputs.dst = { dtype = "T", axes = "m n", doc = "(m, n)" }
// params.m = { type = "u32", value = "a.shape[0]" }
// params.n = { type = "u32", value = "b.shape[0]" }
// params.k = { type = "u32", value = "a.shape[1]" }
// grid = "cdiv(a.shape[0], CFG.B) * cdiv(b.shape[0], CFG.B)"
// operations = "3 * dst.size * a.shape[1]"
// ///

// One workgroup computes a tile of B x B results, and each invocation T x T of them. A stage puts
// BK columns of both operands into workgroup memory.
//% set across = CFG.B // CFG.T
var<workgroup> tile_a: array<array<f32, ${CFG.B}>, ${CFG.BK}>;
var<workgroup> tile_b: array<array<f32, ${CFG.B}>, ${CFG.BK}>;

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let tiles = (p.n + ${CFG.B - 1}u) / ${CFG.B}u;
  let m0 = g / tiles * ${CFG.B}u;
  let n0 = g % tiles * ${CFG.B}u;
  let x = li % ${across}u;
  let y = li / ${across}u;
  var sums: array<array<f32, ${CFG.T}>, ${CFG.T}>;

  for (var k0 = 0u; k0 < p.k; k0 += ${CFG.BK}u) {
    // Beyond the end both operands are 0, and so is the difference.
//% for u in range(CFG.B * CFG.BK // CFG.threads)
    {
      let row = (li + ${u * CFG.threads}u) / ${CFG.BK}u;
      let k = (li + ${u * CFG.threads}u) % ${CFG.BK}u;
      let at = min(k0 + k, p.k - 1u);
      let inside = k0 + k < p.k;
      let va = a_load(p.a_off + min(m0 + row, p.m - 1u) * p.a_ms + at * p.a_ks);
      let vb = b_load(p.b_off + min(n0 + row, p.n - 1u) * p.b_ns + at * p.b_ks);
      tile_a[k][row] = select(0.0f, va, inside);
      tile_b[k][row] = select(0.0f, vb, inside);
    }
//% endfor
    workgroupBarrier();
    for (var k = 0u; k < ${CFG.BK}u; k += 1u) {
//% for i in range(CFG.T)
//% for j in range(CFG.T)
      {
        let d = tile_a[k][y + ${i * across}u] - tile_b[k][x + ${j * across}u];
        sums[${i}][${j}] = fma(d, d, sums[${i}][${j}]);
      }
//% endfor
//% endfor
    }
    workgroupBarrier();  // before the next stores
  }
//% for i in range(CFG.T)
//% for j in range(CFG.T)
  {
    let m = m0 + y + ${i * across}u;
    let n = n0 + x + ${j * across}u;
    if ((m < p.m) & (n < p.n)) { dst_store(p.dst_off + m * p.dst_ms + n * p.dst_ns, sums[${i}][${j}]); }
  }
//% endfor
//% endfor
}
