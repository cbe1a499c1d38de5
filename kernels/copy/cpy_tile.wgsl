// /// kernel
// doc = "Copy and convert a transposed matrix (or a batch of them) through tiles."
// part_of = "cpy"
// axes."S D" = [1, 2, 4, 8, 16]
// when = ["S == D or (S <= 4 and D <= 4)", "BITS == (10 if D >= 8 else 12)"]
// axes.BITS = { values = [10, 12], pick = "10 if dst.dtype.itemsize >= 8 else 12" }
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>' if S == 8 else 'vec4<u32>'" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if D < 4 else 'u32' if D == 4 else 'vec2<u32>' if D == 8 else 'vec4<u32>'" }
// params."src_kind dst_kind" = { type = "u32" }
// params.height = { type = "u32", value = "dst.shape[-2]" }
// params.width = { type = "u32", value = "dst.shape[-1]" }
// params."row_bits left right" = { type = "u32" }
// iterate = "tiles"
// uses = ["convert", "words"]
// grid = "it.batches * cdiv(dst.shape[-2], 1 << row_bits) * cdiv(dst.shape[-1], 1 << (BITS - row_bits))"
// ///

// One workgroup moves a tile of 2^BITS elements. The tile is square if the matrix has enough rows and
// columns, else it is as wide or as high as the matrix. Rows of the source are contiguous in memory, and
// so are columns of the destination: reads run along rows, writes along columns. A destination of
// sub-words is written by whole words; only the words at the ends of a row of the tile are shared.
${convert.functions()}

//% set cell = "u32" if D <= 4 else "vec2<u32>" if D == 8 else "vec4<u32>"
//% set rounds = 2 ** BITS // WG
// Padding would need more than 16 KiB. So the elements of column c are permuted by XOR with c, shifted by
// a number from the plan. Then neither a row nor a column uses a bank twice.
var<workgroup> tile: array<${cell}, ${2 ** BITS}>;

fn cell_of(r: u32, c: u32) -> u32 {
  return (c << p.row_bits) + (r ^ (((c << p.left) >> p.right) & ((1u << p.row_bits) - 1u)));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let col_bits = BITS - p.row_bits;
  let rows = 1u << p.row_bits;
  let cols = 1u << col_bits;
  let across = (p.width + cols - 1u) >> col_bits;
  let down = (p.height + rows - 1u) >> p.row_bits;
  let line = g / across;
  let c0 = (g - line * across) << col_bits;
  let batch = line / down;
  let r0 = (line - batch * down) << p.row_bits;

  // All loads come first, at clamped positions, because loads in branches would wait for each
  // other.
  let source = src_batch(batch);
//% for k in range(rounds)
  let e${k} = li + ${k * WG}u;
  let s${k} = src_at(source, min(r0 + (e${k} & (rows - 1u)), p.height - 1u), min(c0 + (e${k} >> p.row_bits), p.width - 1u));
  let x${k} = ${"src_mem[s" ~ k ~ "]" if D >= 8 else words.bits("src_mem", S, "s" ~ k)};
//% endfor
//% for k in range(rounds)
  tile[cell_of(e${k} & (rows - 1u), e${k} >> p.row_bits)] = ${"x" ~ k if D >= 8 else "convert(x" ~ k ~ ", p.src_kind, p.dst_kind)"};
//% endfor
  workgroupBarrier();

  let target_first = dst_at(dst_batch(batch), r0, c0);
//% if D >= 4
//% for k in range(rounds)
  {
    let c = e${k} & (cols - 1u);
    let r = e${k} >> col_bits;
    if ((c0 + c < p.width) & (r0 + r < p.height)) {
      dst_mem[target_first + r * p.dst_rs + c * p.dst_cs] = tile[cell_of(r, c)];
    }
  }
//% endfor
//% else
//% for k in range(rounds)
  {
    // Elements [first, end) of the destination's row; this lane's word holds ${4 // D} of them.
    let r = e${k} >> col_bits;
    let first = target_first + r * p.dst_rs;
    let end = first + min(cols, p.width - c0);
    let word = first / ${4 // D}u + (e${k} & (cols - 1u));
    if ((r0 + r < p.height) & (word * ${4 // D}u < end)) {
      var bits = 0u;
      var mask = 0u;
//% for h in range(4 // D)
      {
        let e = word * ${4 // D}u + ${h}u;
        if ((e >= first) & (e < end)) {
          bits |= tile[cell_of(r, e - first)] << ${8 * D * h}u;
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
