// As lib/window, where windows lie one column apart, kernels have 3 columns with the middle one at
// the pixel itself, and rows are a multiple of V pixels (2 or 4), planes of 4: a tile is CH channels
// x the 3 taps of one row. One vector of the tile holds 4 neighbouring pixels, 4 / V vectors of
// memory: the middle tap is these, the outer taps share them with one element more on each side.
//
// k is tap column (lowest), channel, tap row; strides and e1, e2 count vectors of V pixels.
//
// With V = 2 the pairs h = 0, 1 of a vector may lie in different rows.

//% macro place(cols, V)
  let a_k = li / ${cols // 4}u;
  let a_i = li % ${cols // 4}u;
  let a_p = min(col0 + a_i * 4u, p.pixels - 4u);
  let a_n = a_p / p.plane;
//% for h in range(4 // V)
  let a_m${h} = a_p - a_n * p.plane + ${h * V}u;
  let a_r${h} = a_m${h} / p.out_w;
  let a_x${h} = a_m${h} - a_r${h} * p.out_w;
  let a_y${h} = a_r${h} * p.stride_h + p.y_first;
  let a_from${h} = a_start + a_n * p.a_ns + a_y${h} * p.a_hs + a_x${h} / ${V}u;
//% endfor
  let a_left = a_x0 > 0u;
  let a_right = a_x${4 // V - 1} + ${V}u < p.width;
//% if V == 2
  let a_joined = a_x1 > 0u;
//% endif
//% endmacro

//% macro _look(var, V)
//% for h in range(4 // V)
      ${var}a_ok${h} = a_y${h} + a_tap.y * p.dy2 < p.height;
      ${var}a_at${h} = select(a_start, a_from${h} + a_tap.y * p.e2, a_ok${h}) + (a_tap.x + a_k) * p.e1;
//% endfor
//% set h = 4 // V - 1
      ${var}a_atl = a_at0 - select(0u, 1u, a_ok0 & a_left);
      ${var}a_atr = a_at${h} + select(0u, 1u, a_ok${h} & a_right);
//% endmacro

//% macro _loads(var, V)
//% for h in range(4 // V)
      ${var}a_v${h} = a_mem[a_at${h}];
//% endfor
      ${var}a_l = a_mem[a_atl].${{4: "w", 2: "y"}[V]};
      ${var}a_h = a_mem[a_atr].x;
//% endmacro

//% macro first(V)
  var a_tap = vec2<u32>(k_first / 3u % p.n1, k_first / 3u / p.n1);
  ${_look("var ", V)}
  ${_loads("var ", V)}
//% endmacro

// `go`: 1, or 0 for a tile again that nobody will use.
//% macro next(CH, V, go)
      a_tap.x += ${CH}u * ${go};
//% for h in range(4 // V)
      a_at${h} += ${CH}u * ${go} * p.e1;
//% endfor
      a_atl += ${CH}u * ${go} * p.e1;
      a_atr += ${CH}u * ${go} * p.e1;
      if (a_tap.x == p.n1) {
        a_tap = vec2<u32>(0u, a_tap.y + 1u);
        ${_look("", V)}
      }
      ${_loads("", V)}
//% endmacro

//% macro keep(V)
    {
//% if V == 4
      let mid = select(vec4<f32>(), vec4<f32>(a_v0), a_ok0);
      let low = mid.xyz;
      let high = mid.yzw;
//% else
      let mid = vec4<f32>(select(vec2<f32>(), vec2<f32>(a_v0), a_ok0), select(vec2<f32>(), vec2<f32>(a_v1), a_ok1));
      let low = vec3<f32>(mid.x, select(0.0f, mid.y, a_joined), mid.z);
      let high = vec3<f32>(mid.y, select(0.0f, mid.z, a_joined), mid.w);
//% endif
      a_tile[a_k * 3u][a_i] = vec4<f32>(select(0.0f, f32(a_l), a_ok0 & a_left), low);
      a_tile[a_k * 3u + 1u][a_i] = mid;
      a_tile[a_k * 3u + 2u][a_i] = vec4<f32>(high, select(0.0f, f32(a_h), a_ok${4 // V - 1} & a_right));
    }
//% endmacro

// The weights of `depth` k in vectors of rows; some invocations may have one vector less.
//% macro weights(rows, NT, depth)
//% set per = NT // (rows // 4)
//% for u in range((depth + per - 1) // per)
  let b_k${u} = min(b_k + ${u * per}u, ${depth - 1}u);
  var b_v${u} = b_mem[b_from + b_k${u} * p.b_rs];
//% endfor
  var b_pos = b_from;
//% endmacro

//% macro weights_next(rows, NT, depth, go)
//% set per = NT // (rows // 4)
      b_pos += ${depth}u * ${go} * p.b_rs;
//% for u in range((depth + per - 1) // per)
      b_v${u} = b_mem[b_pos + b_k${u} * p.b_rs];
//% endfor
//% endmacro

//% macro weights_keep(rows, NT, depth)
//% set per = NT // (rows // 4)
//% for u in range((depth + per - 1) // per)
//% if u * per + per > depth
    if (b_k + ${u * per}u < ${depth}u) { b_tile[b_k${u}][b_i] = b_v${u}; }
//% else
    b_tile[b_k${u}][b_i] = b_v${u};
//% endif
//% endfor
//% endmacro
