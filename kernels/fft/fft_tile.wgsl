// /// kernel
// doc = "One pass of a Fourier transform by a power of two, in registers and workgroup memory."
// part_of = "fft"
// configs.n2 = { N = 2, E = 2, R0 = 2, R1 = 1, R2 = 1, threads = 256 }
// configs.n4 = { N = 4, E = 2, R0 = 2, R1 = 2, R2 = 1, threads = 256 }
// configs.n8 = { N = 8, E = 4, R0 = 4, R1 = 2, R2 = 1, threads = 256 }
// configs.n16 = { N = 16, E = 4, R0 = 4, R1 = 4, R2 = 1, threads = 256 }
// configs.n32 = { N = 32, E = 8, R0 = 8, R1 = 4, R2 = 1, threads = 256 }
// configs.n64 = { N = 64, E = 8, R0 = 8, R1 = 8, R2 = 1, threads = 256 }
// configs.n128 = { N = 128, E = 16, R0 = 16, R1 = 8, R2 = 1, threads = 256 }
// configs.n256 = { N = 256, E = 16, R0 = 16, R1 = 16, R2 = 1, threads = 256 }
// configs.n512 = { N = 512, E = 8, R0 = 8, R1 = 8, R2 = 8, threads = 256 }
// configs.n1024 = { N = 1024, E = 16, R0 = 16, R1 = 16, R2 = 4, threads = 256 }
// configs.n2048 = { N = 2048, E = 16, R0 = 16, R1 = 16, R2 = 8, threads = 256 }
// configs.n2048wide = { N = 2048, E = 32, R0 = 16, R1 = 16, R2 = 8, threads = 256 }
// configs.n4096 = { N = 4096, E = 16, R0 = 16, R1 = 16, R2 = 16, threads = 256 }
// axes.S = { values = [4, 8], pick = "x.dtype.itemsize" }
// axes.D = { values = [4, 8], pick = "dst.dtype.itemsize" }
// axes.LENGTH = "configs"
// when = ["S == 8 or D == 8"]
// inputs.x = { dtype = "*", bind = "'u32' if S == 4 else 'vec2<u32>'", readonly = true, doc = "(..., n)" }
// inputs.table = { dtype = "*", bind = "'vec2<u32>'", index = false, readonly = true }
// outputs.dst = { dtype = "*", bind = "'u32' if D == 4 else 'vec2<u32>'", doc = "(..., m)" }
// include pass
// iterate = "rows"
// uses = ["fft"]
// workgroup_bytes = "4 * CFG.threads * CFG.E"
// grid = "cdiv(it.rows * across, CFG.threads * CFG.E // CFG.N)"
// ///

// blocks.toml describes a pass. A workgroup transforms C columns. A column has LANES invocations
// of E elements each: before and after every stage, invocation t holds the elements t, t + LANES,
// .. (Stockham's order, which sorts itself). Between stages the elements pass through workgroup
// memory, first the real parts, then the imaginary parts, at places whose low bits are exchanged so
// that neighbours lie in different banks.
//% set N, E, WG = CFG.N, CFG.E, CFG.threads
//% set LANES = N // E
//% set C = WG // LANES
//% set radices = [CFG.R0, CFG.R1, CFG.R2] | reject("equalto", 1) | list
${fft.functions()}
//% if LANES > 1
var<workgroup> shared_part: array<f32, ${WG * E}>;
fn place(i: u32) -> u32 { return i ^ ((i >> 5u) & 31u); }
//% endif

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  // Neighbouring invocations take neighbouring columns, or neighbouring elements of one column.
  let near = p.near == 1u;
  let column = select(li / ${LANES}u, li % ${C}u, near);
  let t = select(li % ${LANES}u, li / ${C}u, near);
  let whole = g * ${C}u + column;
  let safe = min(whole, p.rows * p.across - 1u);
  let row = safe / p.across;
  let j = safe - row * p.across;
  let x_base = x_row(row);
  let first_read = j + t * p.across;
  let read_step = ${LANES}u * p.across;
//% set all = []
//% set read = []
//% set written = []
//% for e in range(E)
//% set _ = all.append("v" ~ e)
//% set _ = read.append("first_read + " ~ e ~ "u * read_step")
//% set _ = written.append("first_written + " ~ e ~ "u * written_step")
  var v${e}: vec2<f32>;
//% endfor
  ${fft.load(all, "x_base", read, N ~ "u")}
  let before = j % p.span;
  if (p.span > 1u) {
    // The twiddle of element t + e LANES is w^(t unit), which belongs to this invocation, times
    // w^(e LANES unit), which is the same for all invocations of a column. For e = 4 a + b, the
    // second factor is the product of its values for 4 a and for b.
    let unit = before * p.step;
    let own = outer_twiddle(t * unit);
//% for e in range(1, [E, 4] | min)
    let near${e} = times(own, outer_twiddle(${e * LANES}u * unit));
//% endfor
    v0 = times(v0, own);
//% for e in range(1, [E, 4] | min)
    v${e} = times(v${e}, near${e});
//% endfor
//% for far in range(4, E, 4)
    {
      let far = outer_twiddle(${far * LANES}u * unit);
      v${far} = times(v${far}, times(own, far));
//% for e in range(1, 4)
      v${far + e} = times(v${far + e}, times(near${e}, far));
//% endfor
    }
//% endfor
  }
//% if LANES > 1
  // Places in workgroup memory: element n of the column is at start + n apart.
  let apart = select(1u, ${C}u, near);
  let start = select(column * ${N}u, column, near);
  let own_start = start + t * apart;
//% endif
//% set ns = namespace(done=1)
//% for R in radices
//% set is_first = loop.first
//% set PER = E // R
//% for b in range(PER)
  {
//% set names = []
//% for q in range(R)
//% set _ = names.append("v" ~ (b + q * PER))
//% endfor
//% if ns.done > 1
    let k = (t + ${b * LANES}u) % ${ns.done}u * ${N // (ns.done * R)}u;
    ${fft.twiddles(names, ("p.inner", "k"))}
//% endif
    ${fft.butterfly(names)}
  }
//% endfor
//% if not loop.last
//% for part in ("x", "y")
//% if part == "y" or not is_first
  workgroupBarrier();  // all invocations have read what was stored here before
//% endif
//% for b in range(PER)
  {
    let n = t + ${b * LANES}u;
    let k = n % ${ns.done}u;
    let first = start + ((n - k) * ${R}u + k) * apart;
//% for q in range(R)
    shared_part[place(first + ${q * ns.done}u * apart)] = v${b + q * PER}.${part};
//% endfor
  }
//% endfor
  workgroupBarrier();
//% for e in range(E)
  v${e}.${part} = shared_part[place(own_start + ${e * LANES}u * apart)];
//% endfor
//% endfor
//% set ns.done = ns.done * R
//% endif
//% endfor
  if (whole >= p.rows * p.across) { return; }
  let dst_base = dst_row(row);
  let first_written = (j - before) * ${N}u + before + t * p.span;
  let written_step = ${LANES}u * p.span;
  ${fft.store(all, "dst_base", written)}
}
