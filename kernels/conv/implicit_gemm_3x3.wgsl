// /// kernel
// doc = "conv2d with 3 x 3 taps that keep the width of the image; each stage is one channel with its nine taps."
// part_of = "conv2d"
// configs.64x96 = { BM = 64, BN = 96, BK = 9, threads = 96, TM = 8, TN = 8, LM = 8, LN = 4 }
// configs.64x128 = { BM = 64, BN = 128, BK = 9, threads = 128, TM = 8, TN = 8, LM = 4, LN = 8 }
// axes.A = { values = ["f32", "f16"], pick = "dtype(a)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.TILE = "configs"
// axes.AV = [2, 4]
// axes."BV DV" = { values = [4], pick = "4" }
// when = ["A == 'f16' or D == 'f32'"]
// inputs.a = { dtype = "A", vec = "AV", axes = "n g c h w", doc = "The image." }
// inputs.b = { dtype = "f32", vec = "BV", axes = "g k r", doc = "The weights: rows of channels and taps, in vectors of output channels." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", axes = "s n g o h w", doc = "In vectors of pixels." }
// params."rows pixels plane out_w channels split_channels splits across down height" = { type = "u32" }
// params."width stride_h y_first tap_h" = { type = "u32" }
// include epilogue
// uses = ["tile/epilogue", "tile/outer_product", "tile/swizzle"]
// grid = "b.shape[0] * splits * across * down"
// ///

// One workgroup computes BM output channels of BN pixels of one group (pixels are numbered through
// all images). A stage is one channel, whose nine taps are nine steps of k. An invocation that
// loads from the image has one tap row for the whole loop. It loads a vector of 4 neighbouring
// pixels for the middle tap, and one more element on each side for the outer taps. With AV = 2, a
// vector is two pairs, which may lie in different rows. The next stage is stored, and the stage
// after it is loaded, between the multiply-adds of the current stage, so that one barrier for each
// stage is enough. With split-K, the channels are split, dst is scratch, and the grid has one more
// digit for the split.
//
// Bounds, for unchecked compilation: pixels and rows are clamped to their counts; an index outside of
// the image is replaced by the index of its first pixel; channels end with the split; stores are
// guarded; indices into workgroup memory are lane numbers below the sizes of the arrays.
//% set Q, LAST = CFG.BN // 4, 4 // AV - 1
//% set B_LOADS, B_COUNT = 2, CFG.BK * CFG.BM // 4
// For each operand: the step of k after which the values of the next stage are stored, and the
// values of the stage after it are loaded. These numbers were measured to be the fastest.
//% set A_STORE_AT, B_STORE_AT = (5, 2) if TILE == "64x96" else (1, 6) if A == "f16" else (2, 5)
//% for s in range(2)
var<workgroup> a_tile${s}: array<array<vec4<f32>, ${Q}>, ${CFG.BK}>;
var<workgroup> b_tile${s}: array<array<vec4<f32>, ${CFG.BM // 4}>, ${CFG.BK}>;
//% endfor
${epilogue.functions(("bias",))}

// This invocation's vector of pixels and its tap row: the indices of the vector (or of its pairs)
// and of the neighbours, and flags that are true if they lie in the image.
//% macro a_loader_init()
  let a_lane = li & 31u;
  let a_i = min(a_lane, ${Q - 1}u);
  let a_tap = min(li >> 5u, 2u);
  let a_k = a_tap * 3u;
  let a_stores = (li < 96u) & (a_lane < ${Q}u);
  let a_start = p.a_off + group * p.a_gs + c_first * p.a_cs;
  let a_p = min(col0 + a_i * 4u, p.pixels - 4u);
  let a_n = a_p / p.plane;
//% for h in range(LAST + 1)
  let a_m${h} = a_p - a_n * p.plane + ${h * AV}u;
  let a_row${h} = a_m${h} / p.out_w;
  let a_x${h} = a_m${h} - a_row${h} * p.out_w;
  let a_y${h} = a_row${h} * p.stride_h + p.y_first + a_tap * p.tap_h;
  let a_ok${h} = a_y${h} < p.height;
  let a_at${h} = a_start + select(0u, a_n * p.a_ns + a_y${h} * p.a_hs + a_x${h} / ${AV}u, a_ok${h});
//% endfor
  let a_left = a_ok0 & (a_x0 > 0u);
  let a_right = a_ok${LAST} & (a_x${LAST} + ${AV}u < p.width);
  let a_at_left = a_at0 - select(0u, 1u, a_left);
  let a_at_right = a_at${LAST} + select(0u, 1u, a_right);
//% if AV == 2
  let a_joined = a_x1 > 0u;
//% endif
  let a_end = (c_count - 1u) * p.a_cs;
  var a_pos = 0u;
//% endmacro

//% macro b_loader_init()
  let b_start = p.b_off + group * p.b_gs + c_first * 9u * p.b_ks;
  let b_i = li & 15u;
  let b_from = b_start + min(row0 / 4u + b_i, (p.rows + 3u) / 4u - 1u);
//% for u in range(B_LOADS)
  let b_k${u} = min((li + ${u * CFG.threads}u) >> 4u, 8u);
  let b_at${u} = b_from + b_k${u} * p.b_ks;
//% endfor
  let b_end = (c_count - 1u) * 9u * p.b_ks;
  var b_pos = 0u;
//% endmacro

//% macro registers()
//% for h in range(LAST + 1)
  var a_v${h}: vec${AV}<${A}>;
//% endfor
  var a_l: ${A};
  var a_r: ${A};
//% for u in range(B_LOADS)
  var b_v${u}: vec4<f32>;
//% endfor
//% endmacro

//% macro a_load_next()
//% for h in range(LAST + 1)
    a_v${h} = a_mem[a_at${h} + a_pos];
//% endfor
    a_l = a_mem[a_at_left + a_pos].${{4: "w", 2: "y"}[AV]};
    a_r = a_mem[a_at_right + a_pos].x;
    a_pos = min(a_pos + p.a_cs, a_end);
//% endmacro

//% macro b_load_next()
//% for u in range(B_LOADS)
    b_v${u} = b_mem[b_at${u} + b_pos];
//% endfor
    b_pos = min(b_pos + 9u * p.b_ks, b_end);
//% endmacro

//% macro a_store_stage(s)
    {
//% if AV == 4
      let mid = select(vec4<f32>(), vec4<f32>(a_v0), a_ok0);
      let low = mid.xyz;
      let high = mid.yzw;
//% else
      let mid = vec4<f32>(select(vec2<f32>(), vec2<f32>(a_v0), a_ok0), select(vec2<f32>(), vec2<f32>(a_v1), a_ok1));
      let low = vec3<f32>(mid.x, select(0.0f, mid.y, a_joined), mid.z);
      let high = vec3<f32>(mid.y, select(0.0f, mid.z, a_joined), mid.w);
//% endif
      // This is computed before the branch, because that saves 3 % of the time with f16.
      let left_tap = vec4<f32>(select(0.0f, f32(a_l), a_left), low);
      let right_tap = vec4<f32>(high, select(0.0f, f32(a_r), a_right));
      if (a_stores) {
        a_tile${s}[a_k][a_i] = left_tap;
        a_tile${s}[a_k + 1u][a_i] = mid;
        a_tile${s}[a_k + 2u][a_i] = right_tap;
      }
    }
//% endmacro

//% macro b_store_stage(s)
    b_tile${s}[b_k0][b_i] = b_v0;
    if (li < ${B_COUNT - CFG.threads}u) { b_tile${s}[b_k1][b_i] = b_v1; }
//% endmacro

// Stores the sums in vectors of four pixels of one channel.
//% macro store_tile()
//% for j in range(CFG.TN // 4)
  {
    let m = col0 + (at_col + ${j * CFG.LN}u) * 4u;
    if (m < p.pixels) {
      let image = m / p.plane;
      let inside = m - image * p.plane;
//% if AV == 4
      let y = inside / p.out_w;
      let at = dst_start + image * p.dst_ns + y * p.dst_hs + (inside - y * p.out_w) / 4u;
//% else
      let at = dst_start + image * p.dst_ns + inside / 4u;  // a plane of dst is contiguous
//% endif
//% for i in range(CFG.TM)
      let o${i} = row0 + (at_row + ${i // 4 * CFG.LM}u) * 4u + ${i % 4}u;
      if (o${i} < p.rows) { dst_store(at + o${i} * p.dst_os, c${i}_${j}); }
//% endfor
    }
  }
//% endfor
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${swizzle.channels_first(CFG.BM, CFG.BN)}
  let c_first = split * p.split_channels;
  let c_count = min(p.split_channels, p.channels - c_first);

  ${a_loader_init()}
  ${b_loader_init()}
  ${registers()}
  ${a_load_next()}
  ${b_load_next()}
  ${a_store_stage(0)}
  ${b_store_stage(0)}
  ${a_load_next()}
  ${b_load_next()}

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  workgroupBarrier();
  var left = c_count;
  loop {
//% for s in range(2)
//% for k in range(CFG.BK)
    {
      ${outer_product.load_vectors(k, CFG.TM, CFG.TN, CFG.LM, CFG.LN, s)}
      ${outer_product.fma_vectors(CFG.TM, CFG.TN, there_and_back=true)}
    }
//% if k == A_STORE_AT
    ${a_store_stage(1 - s)}
    ${a_load_next()}
//% endif
//% if k == B_STORE_AT
    ${b_store_stage(1 - s)}
    ${b_load_next()}
//% endif
//% endfor
    workgroupBarrier();  // the other stage is complete, and this stage has been read
    left -= 1u;
    if (left == 0u) { break; }
//% endfor
  }

  let channel0 = group * p.rows;
  ${epilogue.of_channels(CFG.TM, CFG.TN, CFG.LM)}
  let dst_start = p.dst_off + split * p.dst_ss + channel0 * p.dst_os;
  ${store_tile()}
}
