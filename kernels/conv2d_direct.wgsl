// /// kernel
// doc = "conv2d for groups of few channels: sums in registers, straight from the image."
// part_of = "conv2d"
// axes.A = ["f32", "f16"]
// axes.B = ["f32", "f16"]
// axes.D = ["f32", "f16"]
// axes.OB = [1, 4]
// pick.A = "dtype(a)"
// pick.B = "dtype(b)"
// pick.D = "dtype(dst)"
// pick.OB = "4 if dst.shape[2] > 1 else 1"
// inputs.a = { dtype = "A", doc = "The image." }
// inputs.b = { dtype = "B", doc = "The weights." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", doc = "(N, groups, O / groups, OH, OW)" }
// params.rows = { type = "u32", value = "dst.shape[2]" }
// params.blocks = { type = "u32", value = "cdiv(dst.shape[2], OB)" }
// params.group_count = { type = "u32", value = "dst.shape[1]" }
// params.out_h = { type = "u32", value = "dst.shape[3]" }
// params.out_w = { type = "u32", value = "dst.shape[4]" }
// params.items = { type = "u32", value = "dst.shape[0] * dst.shape[1] * cdiv(dst.shape[2], OB) * dst.shape[3] * dst.shape[4]" }
// params.channels_last = { type = "u32" }
// params.channels = { type = "u32" }
// params.kernel_h = { type = "u32" }
// params.kernel_w = { type = "u32" }
// params.height = { type = "u32" }
// params.width = { type = "u32" }
// params.stride_h = { type = "u32" }
// params.stride_w = { type = "u32" }
// params.y_first = { type = "u32" }
// params.x_first = { type = "u32" }
// params.tap_h = { type = "u32" }
// params.tap_w = { type = "u32" }
// params.a_ns = { type = "u32" }
// params.a_gs = { type = "u32" }
// params.a_cs = { type = "u32" }
// params.a_hs = { type = "u32" }
// params.a_ws = { type = "u32" }
// params.b_gs = { type = "u32" }
// params.b_os = { type = "u32" }
// params.b_cs = { type = "u32" }
// params.b_hs = { type = "u32" }
// params.b_ws = { type = "u32" }
// params.dst_ns = { type = "u32" }
// params.dst_gs = { type = "u32" }
// params.dst_os = { type = "u32" }
// params.dst_hs = { type = "u32" }
// params.dst_ws = { type = "u32" }
// params.bias_os = { type = "u32" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// params.act = { type = "u32" }
// params.scale = { type = "f32", arg = true }
// uses = ["product"]
// grid = "cdiv(dst.shape[0] * dst.shape[1] * cdiv(dst.shape[2], OB) * dst.shape[3] * dst.shape[4], 256)"
// ///

// One invocation computes one pixel of OB output channels of a group. Neighbours take neighbouring
// pixels, or channels where those lie next to each other (channels_last).
//
// Bounds, for unchecked compilation: an element of the image outside of it is read at its first
// pixel; rows of the weights are clamped; stores are guarded.
${product.epilogue(("bias",))}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let item = g * 256u + li;
  if (item >= p.items) { return; }
  let members = p.group_count * p.blocks;
  let plane = p.out_h * p.out_w;
  let last = p.channels_last == 1u;
  // (image, member, pixel), or (image, pixel, member).
  let inner = select(plane, members, last);
  let rest = item / inner;
  let low = item - rest * inner;
  let middle = select(members, plane, last);
  let image = rest / middle;
  let high = rest - image * middle;
  let member = select(high, low, last);
  let pixel = select(low, high, last);
  let group = member / p.blocks;
  let row0 = (member - group * p.blocks) * ${OB}u;
  let out_y = pixel / p.out_w;
  let out_x = pixel - out_y * p.out_w;
  let y0 = out_y * p.stride_h + p.y_first;
  let x0 = out_x * p.stride_w + p.x_first;

  let a_safe = p.a_off + image * p.a_ns + group * p.a_gs;
  let a_corner = a_safe + y0 * p.a_hs + x0 * p.a_ws;
//% for o in range(OB)
  let b_row${o} = p.b_off + group * p.b_gs + min(row0 + ${o}u, p.rows - 1u) * p.b_os;
  var sum${o} = 0.0f;
//% endfor
  for (var c = 0u; c < p.channels; c += 1u) {
    var y = y0;
    for (var i = 0u; i < p.kernel_h; i += 1u) {
      let inside_y = y < p.height;
      var x = x0;
      var at = a_corner + c * p.a_cs + i * p.tap_h * p.a_hs;
      var b_at = c * p.b_cs + i * p.b_hs;
      for (var j = 0u; j < p.kernel_w; j += 1u) {
        let inside = inside_y & (x < p.width);
        let seen = a_load(select(a_safe, at, inside));
        let v = select(0.0f, seen, inside);
//% for o in range(OB)
        sum${o} = fma(v, b_load(b_row${o} + b_at), sum${o});
//% endfor
        x += p.tap_w;
        at += p.tap_w * p.a_ws;
        b_at += p.b_ws;
      }
      y += p.tap_h;
    }
  }

  let at = p.dst_off + image * p.dst_ns + group * p.dst_gs + out_y * p.dst_hs + out_x * p.dst_ws;
//% for o in range(OB)
  if (row0 + ${o}u < p.rows) {
    var v = sum${o} * p.scale;
    if (p.bias_kind != 0u) { v += bias_value(p.bias_off + (group * p.rows + row0 + ${o}u) * p.bias_os); }
    if (p.act != 0u) { v = activate(vec4<f32>(v), p.act).x; }
    dst_store(at + (row0 + ${o}u) * p.dst_os, v);
  }
//% endfor
}
