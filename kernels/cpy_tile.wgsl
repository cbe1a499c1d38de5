// /// kernel
// doc = "Copy and convert a transposed matrix (or a batch of them) through tiles."
// part_of = "cpy"
// axes.S = [1, 2, 4, 8]
// axes.D = [1, 2, 4, 8]
// when = ["S == D or (S <= 4 and D <= 4)"]
// axes.WG = [256]
// pick.WG = "256"
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>'" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if D < 4 else 'u32' if D == 4 else 'vec2<u32>'" }
// params.src_kind = { type = "u32" }
// params.dst_kind = { type = "u32" }
// params.height = { type = "u32", value = "dst.shape[-2]" }
// params.width = { type = "u32", value = "dst.shape[-1]" }
// iterate = "tiles"
// uses = ["convert", "words"]
// grid = "it.batches * cdiv(dst.shape[-2], 32) * cdiv(dst.shape[-1], 32)"
// ///

// One workgroup moves a tile of 32 x 32 elements. The source's rows are contiguous in memory, the
// destination's columns: reads run along the first, writes along the second. A destination of
// sub-words is written by whole words; only the words at the ends of a row of the tile are shared.
${convert.functions()}

//% set cell = "vec2<u32>" if D == 8 else "u32"
// 33 columns: a column of the tile touches every bank once.
var<workgroup> tile: array<array<${cell}, 33>, 32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let across = (p.width + 31u) / 32u;
  let down = (p.height + 31u) / 32u;
  let line = g / across;
  let c0 = (g - line * across) * 32u;
  let batch = line / down;
  let r0 = (line - batch * down) * 32u;
  let lane = li & 31u;
  let y = li >> 5u;

  let source = src_batch(batch);
//% for k in range(4)
  {
    let r = r0 + lane;
    let c = c0 + y + ${8 * k}u;
    if ((r < p.height) & (c < p.width)) {
      let s = src_at(source, r, c);
//% if D == 8
      tile[y + ${8 * k}u][lane] = src_mem[s];
//% else
      tile[y + ${8 * k}u][lane] = convert(${words.bits("src_mem", S, "s")}, p.src_kind, p.dst_kind);
//% endif
    }
  }
//% endfor
  workgroupBarrier();

  let target_batch = dst_batch(batch);
//% for k in range(4)
  {
    let r = r0 + y + ${8 * k}u;
//% if D >= 4
    if ((r < p.height) & (c0 + lane < p.width)) {
      dst_mem[dst_at(target_batch, r, c0 + lane)] = tile[lane][y + ${8 * k}u];
    }
//% else
    // Elements [first, end) of the destination's row; this lane's word holds ${4 // D} of them.
    let first = dst_at(target_batch, r, c0);
    let end = first + min(32u, p.width - c0);
    let word = first / ${4 // D}u + lane;
    if ((r < p.height) & (word * ${4 // D}u < end)) {
      var bits = 0u;
      var mask = 0u;
//% for h in range(4 // D)
      {
        let e = word * ${4 // D}u + ${h}u;
        if ((e >= first) & (e < end)) {
          bits |= tile[e - first][y + ${8 * k}u] << ${8 * D * h}u;
          mask |= ${"0xffffu" if D == 2 else "0xffu"} << ${8 * D * h}u;
        }
      }
//% endfor
      if (mask == 0xffffffffu) {
        atomicStore(&dst_mem[word], bits);
      } else {
        atomicAnd(&dst_mem[word], ~mask);
        atomicOr(&dst_mem[word], bits);
      }
    }
//% endif
  }
//% endfor
}
