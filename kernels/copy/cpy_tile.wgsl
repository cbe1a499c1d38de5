// /// kernel
// doc = "Copy and convert a transposed matrix (or a batch of them) through tiles."
// part_of = "cpy"
// axes.S = [1, 2, 4, 8]
// axes.D = [1, 2, 4, 8]
// when = ["S == D or (S <= 4 and D <= 4)", "TILE == (32 if D == 8 else 64)"]
// axes.TILE = [32, 64]
// axes.WG = [256]
// pick.TILE = "32 if dst.dtype.itemsize == 8 else 64"
// pick.WG = "256"
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>'" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if D < 4 else 'u32' if D == 4 else 'vec2<u32>'" }
// params.src_kind = { type = "u32" }
// params.dst_kind = { type = "u32" }
// params.height = { type = "u32", value = "dst.shape[-2]" }
// params.width = { type = "u32", value = "dst.shape[-1]" }
// iterate = "tiles"
// uses = ["convert", "words"]
// grid = "it.batches * cdiv(dst.shape[-2], TILE) * cdiv(dst.shape[-1], TILE)"
// ///

// One workgroup moves a tile of TILE x TILE elements. The source's rows are contiguous in memory,
// the destination's columns: reads run along the first, writes along the second. A destination of
// sub-words is written by whole words; only the words at the ends of a row of the tile are shared.
${convert.functions()}

//% set cell = "vec2<u32>" if D == 8 else "u32"
//% set width = TILE
//% set rows_at_once = WG // width
// No padding: it would pass 16 KiB. Column c of row r lies at c ^ (r & 31), so that neither a row
// nor a column meets one bank twice.
var<workgroup> tile: array<array<${cell}, ${TILE}>, ${TILE}>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let across = (p.width + TILE - 1u) / TILE;
  let down = (p.height + TILE - 1u) / TILE;
  let line = g / across;
  let c0 = (g - line * across) * TILE;
  let batch = line / down;
  let r0 = (line - batch * down) * TILE;
  let lane = li % TILE;
  let y = li / TILE;

  // All loads first, at clamped positions: behind branches they would wait for each other.
  let source = src_batch(batch);
//% for k in range(TILE // rows_at_once)
  let s${k} = src_at(source, min(r0 + lane, p.height - 1u), min(c0 + y + ${k * rows_at_once}u, p.width - 1u));
  let x${k} = ${"src_mem[s" ~ k ~ "]" if D == 8 else words.bits("src_mem", S, "s" ~ k)};
//% endfor
//% for k in range(TILE // rows_at_once)
  let b${k} = y + ${k * rows_at_once}u;
  tile[b${k}][lane ^ (b${k} & 31u)] = ${"x" ~ k if D == 8 else "convert(x" ~ k ~ ", p.src_kind, p.dst_kind)"};
//% endfor
  workgroupBarrier();

  let target_first = dst_at(dst_batch(batch), r0 + y, c0);
  let target_step = ${rows_at_once}u * p.dst_rs;
//% if D >= 4
  if (c0 + lane < p.width) {
//% for k in range(TILE // rows_at_once)
    if (r0 + y + ${k * rows_at_once}u < p.height) {
      let a = y + ${k * rows_at_once}u;
      dst_mem[target_first + ${k}u * target_step + lane * p.dst_cs] = tile[lane][a ^ (lane & 31u)];
    }
//% endfor
  }
//% else
//% for k in range(TILE // rows_at_once)
  {
    // Elements [first, end) of the destination's row; this lane's word holds ${4 // D} of them.
    let a = y + ${k * rows_at_once}u;
    let first = target_first + ${k}u * target_step;
    let end = first + min(TILE, p.width - c0);
    let word = first / ${4 // D}u + lane;
    if ((r0 + a < p.height) & (word * ${4 // D}u < end)) {
      var bits = 0u;
      var mask = 0u;
//% for h in range(4 // D)
      {
        let e = word * ${4 // D}u + ${h}u;
        if ((e >= first) & (e < end)) {
          bits |= tile[e - first][a ^ ((e - first) & 31u)] << ${8 * D * h}u;
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
  }
//% endfor
//% endif
}
