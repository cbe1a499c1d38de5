// /// kernel
// doc = "One pass of a Fourier transform by a product of small primes, in workgroup memory."
// part_of = "fft"
// axes.S = { values = [4, 8], pick = "x.dtype.itemsize" }
// axes.D = { values = [4, 8], pick = "dst.dtype.itemsize" }
// axes.WG = { values = [256], pick = "256" }
// when = ["S == 8 or D == 8"]
// inputs.x = { dtype = "*", bind = "'u32' if S == 4 else 'vec2<u32>'", readonly = true, doc = "(..., n)" }
// inputs.table = { dtype = "*", bind = "'vec2<u32>'", index = false, readonly = true }
// outputs.dst = { dtype = "*", bind = "'u32' if D == 4 else 'vec2<u32>'", doc = "(..., m)" }
// include pass
// params.size = { type = "u32", doc = "The factor of this pass, 1024 or less" }
// params.columns = { type = "u32", doc = "Columns of a workgroup" }
// params.radices = { type = "u32", doc = "Radices of the stages, 4 bits each; the first radix is in the lowest bits" }
// iterate = "rows"
// uses = ["fft"]
// grid = "cdiv(it.rows * across, columns)"
// ///

// blocks.toml describes a pass. A workgroup transforms `columns` columns, which are 1024 elements
// or fewer. The two halves of workgroup memory take turns as source and destination of a stage.
${fft.functions()}
var<workgroup> halves: array<vec2<f32>, 2048>;

// Element i of the workgroup is element n of one of its columns, which is column j of a row.
//% macro place_of_element()
    let column = select(i / p.size, i % columns, near);
    let n = select(i % p.size, i / columns, near);
    let whole = first_column + column;
    let row = whole / p.across;
    let j = whole - row * p.across;
//% endmacro

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let near = p.near == 1u;
  let first_column = g * p.columns;
  let columns = min(p.columns, p.rows * p.across - first_column);
  let count = columns * p.size;
  for (var i = li; i < count; i += WG) {
${place_of_element()}
    let x_base = x_row(row);
    var v: vec2<f32>;
    ${fft.load(["v"], "x_base", ["j + n * p.across"], "p.size")}
    if (p.span > 1u) { v = times(v, outer_twiddle(n * (j % p.span) * p.step)); }
    halves[column * p.size + n] = v;
  }
  workgroupBarrier();
  var done = 1u;
  var source = 0u;
  for (var radices = p.radices; radices != 0u; radices = radices >> 4u) {
    let radix = radices & 15u;
    let each = p.size / radix;
    let unit = each / done;
    let target_half = 1024u - source;
    for (var i = li; i < columns * each; i += WG) {
      let column = i / each;
      let n = i - column * each;
      let k = n % done;
      let from_place = source + column * p.size + n;
      let to_place = target_half + column * p.size + (n - k) * radix + k;
      let at = k * unit;
      switch radix {
//% for R in (2, 3, 4, 5, 7, 8)
//% if R == 8
        default: {
//% else
        case ${R}u: {
//% endif
//% set names = []
//% for q in range(R)
//% set _ = names.append("v" ~ q)
          var v${q} = halves[from_place + ${q}u * each];
//% endfor
          ${fft.twiddles(names, ("p.inner", "at"))}
          ${fft.butterfly(names)}
//% for q in range(R)
          halves[to_place + ${q}u * done] = v${q};
//% endfor
        }
//% endfor
      }
    }
    workgroupBarrier();
    done = done * radix;
    source = target_half;
  }
  for (var i = li; i < count; i += WG) {
${place_of_element()}
    let before = j % p.span;
    let dst_base = dst_row(row);
    var v = halves[source + column * p.size + n];
    ${fft.store(["v"], "dst_base", ["(j - before) * p.size + before + n * p.span"])}
  }
}
