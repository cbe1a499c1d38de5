// The loader of image windows for products (implicit GEMM): the operand `a`, whose rows are pixels of
// dst and whose k are the taps and channels of each pixel's window. It has the same macros as
// lib/tile/loader.
//
// A k has three digits in mixed radix (n0 is the radix of the lowest): channel, tap column and tap row,
// in the order of the weights. A step of a digit moves an element's index by e0, e1 or e2, its row of the
// image by dy1 or dy2, and its column by dx0 or dx1.
//
// One vector of the tile holds the pixels q, q + Q, q + 2 Q and q + 3 Q, where Q is the number of
// vectors in a row of the tile. So neighbouring invocations load neighbouring pixels, whatever the
// alignment is. Loads outside of the image are made at a clamped index and replaced by zero when
// they are stored.
//
// `t` describes the tiles:
//   FORM     "any": each k has digits of its own; "taps": the lowest digit is the channel, and n0
//            is a multiple of BK, so all k of a tile belong to one tap; "vec": as "taps", and U
//            channels are one vector of memory
//   U        k that one invocation loads
//   EXTENT   pixels of a tile
//   BK       k of a tile
//   threads  invocations of the workgroup

// The index and the corner of the window, for each of the invocation's pixels.
//% macro init(t)
//% set Q = t.EXTENT // 4
//% if t.FORM == "vec"
  let a_k = ((li / 8u) % ${t.BK // t.U}u) * ${t.U}u;
  let a_i = li % 8u + (li / ${8 * t.BK // t.U}u) * 8u;
//% else
  let a_k = li / ${Q}u;
  let a_i = li % ${Q}u;
//% endif
//% for e in range(4)
  let a_p${e} = min(col0 + a_i + ${e * Q}u, p.pixels - 1u);
  let a_n${e} = a_p${e} / p.plane;
  let a_r${e} = (a_p${e} - a_n${e} * p.plane) / p.out_w;
  let a_y${e} = a_r${e} * p.stride_h + p.y_first;
  let a_x${e} = (a_p${e} - a_n${e} * p.plane - a_r${e} * p.out_w) * p.stride_w + p.x_first;
  let a_from${e} = a_start + a_n${e} * p.a_ns + a_y${e} * p.a_hs + a_x${e} * p.a_ws;
//% endfor
//% endmacro

// Loads the first tile, which holds `k_prologue` steps of k; `k_first` is the split's first k.
//% macro load_prologue(t)
//% set per = t.threads // (t.EXTENT // 4)
//% if t.FORM == "any"
//% for u in range(t.U)
  let a_k${u} = min(a_k + ${u * per}u, k_prologue - 1u);
  let a_in${u} = a_k + ${u * per}u < k_prologue;
  var a_d${u} = digits(k_first + a_k${u});
//% for e in range(4)
  var a_ok${u}${e} = in_image(a_y${e}, a_x${e}, a_d${u}) & a_in${u};
  var a_v${u}${e} = a_mem[select(a_start, a_from${e} + window_index(a_d${u}), a_ok${u}${e})];
//% endfor
//% endfor
//% for u in range(t.U)
  a_d${u} = digits(k_first + k_prologue + a_k + ${u * per}u);
//% endfor
//% else
  var a_tap = digits(k_first);
//% for e in range(4)
  var a_ok${e} = in_image(a_y${e}, a_x${e}, vec3<u32>(0u, a_tap.yz));
  var a_at${e} = select(a_start, a_from${e} + window_index(vec3<u32>(0u, a_tap.yz)), a_ok${e});
//% endfor
  ${_loads(t, "var ")}
//% endif
//% endmacro

// Loads the next tile if `go` is 1. If `go` is 0 (never in form "any"), the same tile is loaded again and
// not used.
//% macro load_next(t, go)
//% if t.FORM == "any"
//% for u in range(t.U)
//% for e in range(4)
      a_ok${u}${e} = in_image(a_y${e}, a_x${e}, a_d${u});
      a_v${u}${e} = a_mem[select(a_start, a_from${e} + window_index(a_d${u}), a_ok${u}${e})];
//% endfor
      a_d${u} = next_digits(a_d${u});
//% endfor
//% else
      a_tap.x += ${t.BK}u * ${go};
      if (a_tap.x == p.n0) {
        a_tap = select(vec3<u32>(0u, a_tap.y + 1u, a_tap.z), vec3<u32>(0u, 0u, a_tap.z + 1u), a_tap.y + 1u == p.n1);
//% for e in range(4)
        a_ok${e} = in_image(a_y${e}, a_x${e}, a_tap);
        a_at${e} = select(a_start, a_from${e} + window_index(a_tap), a_ok${e});
//% endfor
      }
      ${_loads(t, "")}
//% endif
//% endmacro

//% macro _loads(t, var)
//% if t.FORM == "vec"
  let a_c = (a_tap.x + a_k) / ${t.U}u;
//% for e in range(4)
  ${var}a_v${e} = a_mem[a_at${e} + a_c];
//% endfor
//% else
//% for u in range(t.U)
  let a_c${u} = (a_tap.x + a_k + ${u * t.threads // (t.EXTENT // 4)}u) * p.e0;
//% for e in range(4)
  ${var}a_v${u}${e} = a_mem[a_at${e} + a_c${u}];
//% endfor
//% endfor
//% endif
//% endmacro

// Stores the loaded tile to workgroup memory.
//% macro store_stage(t)
//% for u in range(t.U)
//% set row = "a_k + " ~ (u if t.FORM == "vec" else u * t.threads // (t.EXTENT // 4)) ~ "u"
    a_tile[${row}][a_i] = select(
      vec4<f32>(),
//% if t.FORM == "vec"
      vec4<f32>(vec4(a_v0[${u}], a_v1[${u}], a_v2[${u}], a_v3[${u}])),
//% else
      vec4<f32>(vec4(a_v${u}0, a_v${u}1, a_v${u}2, a_v${u}3)),
//% endif
//% set of = u if t.FORM == "any" else ""
      vec4<bool>(a_ok${of}0, a_ok${of}1, a_ok${of}2, a_ok${of}3),
    );
//% endfor
//% endmacro

// Functions of three digits.
//% macro functions()
fn digits(k: u32) -> vec3<u32> {
  let q = k / p.n0;
  let r = q / p.n1;
  return vec3<u32>(k - q * p.n0, q - r * p.n1, r);
}

// The digits of k + BK.
fn next_digits(d: vec3<u32>) -> vec3<u32> {
  let x = d.x + p.step0;
  let over = x >= p.n0;
  let y = d.y + p.step1 + select(0u, 1u, over);
  let more = y >= p.n1;
  return vec3<u32>(x - select(0u, p.n0, over), y - select(0u, p.n1, more), d.z + p.step2 + select(0u, 1u, more));
}

// The index of an element, counted from the corner of its window.
fn window_index(d: vec3<u32>) -> u32 { return d.x * p.e0 + d.y * p.e1 + d.z * p.e2; }

// True if the element lies inside of the image. Rows and columns before it wrap to large numbers.
fn in_image(y: u32, x: u32, d: vec3<u32>) -> bool {
  return (y + d.y * p.dy1 + d.z * p.dy2 < p.height) & (x + d.x * p.dx0 + d.y * p.dx1 < p.width);
}
//% endmacro
