// Running sums over the lanes of a row in a fixed order, or products if p.product is 1, through
// workgroup memory.
//
// `Sum` is the type of the sums. LANES invocations, a power of four, hold a row; a workgroup holds
// WG / LANES rows.

//% macro functions()
alias Sum = ${"u32" if T == "u32" else "f32"};
fn combine(a: Sum, b: Sum) -> Sum { return select(a + b, a * b, p.product == 1u); }
fn neutral() -> Sum { return Sum(p.product); }
//% endmacro

// Each invocation has N vectors of VEC elements. With `total`, the sum of a row is computed, too.
//% macro memory(LANES, WG, N)
var<workgroup> lane_a: array<Sum, ${WG}>;
//% if LANES > 4
var<workgroup> lane_b: array<Sum, ${WG}>;
//% endif
//% if N > 1
// Each lane has N sums and one unused place, so that lanes use different banks.
var<workgroup> chunk_sums: array<Sum, ${WG * (N + 1)}>;
//% endif
//% endmacro

// `before` becomes the sum of `value` over the lanes before this lane. Each round combines four
// runs of the previous round; in the last round the runs end one lane earlier, so that this lane's
// own value is left out.
//% macro lanes(value, before, LANES, total="")
  lane_a[li] = ${value};
  workgroupBarrier();
  var ${before} = neutral();
//% for round in range(LANES.bit_length() // 2)
//% set d = 4 ** round
//% set from = "lane_a" if round % 2 == 0 else "lane_b"
//% set to = "lane_b" if round % 2 == 0 else "lane_a"
  {
//% if 4 * d == LANES
//% for k in range(4)
    let r${k} = select(neutral(), ${from}[li - min(lane, ${k * d + 1}u)], lane >= ${k * d + 1}u);
//% endfor
    ${before} = combine(combine(r3, r2), combine(r1, r0));
//% if total
    let last = li - lane + ${LANES - 1}u;
    ${total} = combine(combine(${from}[last - ${3 * d}u], ${from}[last - ${2 * d}u]), combine(${from}[last - ${d}u], ${from}[last]));
//% endif
//% else
    let r0 = ${from}[li];
//% for k in range(1, 4)
    let r${k} = select(neutral(), ${from}[li - min(lane, ${k * d}u)], lane >= ${k * d}u);
//% endfor
    ${to}[li] = combine(combine(r3, r2), combine(r1, r0));
    workgroupBarrier();
//% endif
  }
//% endfor
//% endmacro

// All loads come first, at clamped positions. Elements beyond the end of a row come after all stored
// elements, so they change no stored sum.
//% macro load(LANES, N, VEC, first)
//% for k in range(N)
  let c${k} = ${first} + lane + ${k * LANES}u;
  let x${k} = x_load(x_at(x_base, min(c${k}, p.cols - 1u)));
//% endfor
//% endmacro

// y0 .. yN become the running sums of the row, beginning with `carry`; `total` becomes the row's sum
// without `carry`.
//% macro tile(LANES, N, VEC, carry, total="")
//% for k in range(N)
//% if VEC == 4
  var y${k} = vec4<Sum>(x${k});
  y${k}[1] = combine(y${k}[0], y${k}[1]);
  y${k}[2] = combine(y${k}[1], y${k}[2]);
  y${k}[3] = combine(y${k}[2], y${k}[3]);
  let s${k} = y${k}[3];
//% else
  var y${k} = Sum(x${k});
  let s${k} = y${k};
//% endif
//% endfor
//% if N == 1
  ${lanes("s0", "before", LANES, total)}
  let before0 = combine(${carry}, before);
//% else
  let chunk_base = (li - lane) * ${N + 1}u;
//% for k in range(N)
  chunk_sums[chunk_base + ${k * LANES}u + lane + (${k * LANES}u + lane) / ${N}u] = s${k};
//% endfor
  workgroupBarrier();
  let own = chunk_base + lane * ${N + 1}u;
  let u0 = chunk_sums[own];
//% for k in range(1, N)
  let u${k} = combine(u${k - 1}, chunk_sums[own + ${k}u]);
//% endfor
  ${lanes("u" ~ (N - 1), "before", LANES, total)}
  let start = combine(${carry}, before);
  chunk_sums[own] = start;
//% for k in range(1, N)
  chunk_sums[own + ${k}u] = combine(start, u${k - 1});
//% endfor
  workgroupBarrier();
//% for k in range(N)
  let before${k} = chunk_sums[chunk_base + ${k * LANES}u + lane + (${k * LANES}u + lane) / ${N}u];
//% endfor
//% endif
//% for k in range(N)
//% if VEC == 4
//% for e in range(4)
  y${k}[${e}] = combine(before${k}, y${k}[${e}]);
//% endfor
//% else
  y${k} = combine(before${k}, y${k});
//% endif
//% endfor
//% endmacro

//% macro store(N, guard)
//% for k in range(N)
  if (${guard}(c${k} < p.cols)) { dst_store(dst_at(dst_base, c${k}), y${k}); }
//% endfor
//% endmacro
