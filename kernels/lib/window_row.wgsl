// As lib/window, where windows lie one column apart, kernels have 3 columns, the middle one at the
// pixel itself, and rows a multiple of 4 pixels: a tile is 4 channels x the 3 taps of one row. One
// vector holds 4 neighbouring pixels: the middle tap is one vector of memory, the outer taps share it
// with one element more each.
//
// k is tap column (lowest), channel, tap row; strides and e1, e2 count vectors of pixels.

//% set BK = 12

// The vector of the invocation's pixels, and what lies left and right of it.
//% macro place(cols)
  let a_k = li / ${cols // 4}u;
  let a_i = li % ${cols // 4}u;
  let a_p = min(col0 + a_i * 4u, p.pixels - 4u);
  let a_n = a_p / p.plane;
  let a_r = (a_p - a_n * p.plane) / p.out_w;
  let a_x = a_p - a_n * p.plane - a_r * p.out_w;
  let a_y = a_r * p.stride_h + p.y_first;
  let a_from = a_start + a_n * p.a_ns + a_y * p.a_hs + a_x / 4u;
  let a_left = select(0u, 1u, a_x > 0u);
  let a_right = select(0u, 1u, a_x + 4u < p.width);
//% endmacro

//% macro first()
  var a_tap = vec2<u32>(k_first / 3u % p.n1, k_first / 3u / p.n1);
  var a_ok = a_y + a_tap.y * p.dy2 < p.height;
  var a_at = select(a_start, a_from + a_tap.y * p.e2, a_ok) + (a_tap.x + a_k) * p.e1;
  var a_v = a_mem[a_at];
  var a_l = a_mem[a_at - a_left].w;
  var a_h = a_mem[a_at + a_right].x;
//% endmacro

//% macro next()
      a_tap.x += 4u;
      a_at += 4u * p.e1;
      if (a_tap.x == p.n1) {
        a_tap = vec2<u32>(0u, a_tap.y + 1u);
        a_ok = a_y + a_tap.y * p.dy2 < p.height;
        a_at = select(a_start, a_from + a_tap.y * p.e2, a_ok) + a_k * p.e1;
      }
      a_v = a_mem[a_at];
      a_l = a_mem[a_at - a_left].w;
      a_h = a_mem[a_at + a_right].x;
//% endmacro

//% macro keep()
    {
      let mid = select(vec4<f32>(), vec4<f32>(a_v), a_ok);
      a_tile[a_k * 3u][a_i] = vec4<f32>(select(0.0f, f32(a_l), a_ok & (a_left == 1u)), mid.xyz);
      a_tile[a_k * 3u + 1u][a_i] = mid;
      a_tile[a_k * 3u + 2u][a_i] = vec4<f32>(mid.yzw, select(0.0f, f32(a_h), a_ok & (a_right == 1u)));
    }
//% endmacro

// The weights in vectors of rows; some invocations have one vector less than others.
//% macro weights(rows, NT)
//% set per = NT // (rows // 4)
//% for u in range((BK + per - 1) // per)
  let b_k${u} = min(b_k + ${u * per}u, ${BK - 1}u);
  var b_v${u} = b_mem[b_from + b_k${u} * p.b_rs];
//% endfor
  var b_pos = b_from;
//% endmacro

//% macro weights_next(rows, NT)
//% set per = NT // (rows // 4)
      b_pos += ${BK}u * p.b_rs;
//% for u in range((BK + per - 1) // per)
      b_v${u} = b_mem[b_pos + b_k${u} * p.b_rs];
//% endfor
//% endmacro

//% macro weights_keep(rows, NT)
//% set per = NT // (rows // 4)
//% for u in range((BK + per - 1) // per)
//% if u * per + per > BK
    if (b_k + ${u * per}u < ${BK}u) { b_tile[b_k${u}][b_i] = b_v${u}; }
//% else
    b_tile[b_k${u}][b_i] = b_v${u};
//% endif
//% endfor
//% endmacro
