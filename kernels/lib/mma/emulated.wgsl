// Matrix units emulated, for tests on devices without them: see subgroup_matrix. A subgroup is 32
// neighbouring invocations. A lane holds two rows of four columns of a result, and of an operand what
// it multiplies for them, copied when it is loaded: so a tile that is overwritten too early shows. No
// f16 and no subgroup operations are needed.
//
// Sums of halves are at least as inexact as those of known units (docs/design/matrix-units.md): four
// products and the sum so far are cut to multiples of the largest one's last place before they are
// added, and the new sum is cut to 24 bits.
//% set M, N, K = 16, 16, 16 if FRAGMENTS == "f16" else 32
//% set SUM = "f32" if FRAGMENTS == "f16" else "u32" if FRAGMENTS == "u8" else "i32"
//% set UNIT = 8 if FRAGMENTS == "f16" else 16

//% macro memory(operands, results, threads)
alias Sums = array<vec4<${SUM}>, 2>;
alias Left = array<array<${SUM}, ${K}>, 2>;
alias Right = array<vec4<${SUM}>, ${K}>;
var<workgroup> tile: array<vec4<u32>, ${[operands, results] | max}>;
var<workgroup> exchange: array<u32, ${threads}>;
var<workgroup> any_lane: u32;

// Element i of the operands, counted from the array's begin.
fn element(i: u32) -> ${SUM} {
//% if FRAGMENTS == "f16"
  let unit = tile[i >> 3u];
  let pair = unpack2x16float(unit[(i >> 1u) & 3u]);
  return select(pair.x, pair.y, (i & 1u) == 1u);
//% else
  let unit = ${"bitcast<vec4<i32>>(tile[i >> 4u])" if FRAGMENTS == "i8" else "tile[i >> 4u]"};
  return extractBits(unit[(i >> 2u) & 3u], (i & 3u) * 8u, 8u);
//% endif
}

fn load_left(from: u32, row: u32, column: u32, lane: u32) -> Left {
  var out: Left;
  for (var r = 0u; r < 2u; r += 1u) {
    for (var k = 0u; k < ${K}u; k += 1u) {
      out[r][k] = element(from + ((lane >> 2u) * 2u + r) * row + k * column);
    }
  }
  return out;
}

fn load_right(from: u32, row: u32, column: u32, lane: u32) -> Right {
  var out: Right;
  let n = from + (lane & 3u) * 4u * column;
  for (var k = 0u; k < ${K}u; k += 1u) {
    let i = n + k * row;
    out[k] = vec4<${SUM}>(element(i), element(i + column), element(i + 2u * column), element(i + 3u * column));
  }
  return out;
}

//% if FRAGMENTS == "f16"
// The bits of a magnitude's exponent.
fn exponent(x: vec4<f32>) -> vec4<u32> { return (bitcast<vec4<u32>>(x) >> vec4<u32>(23u)) & vec4<u32>(255u); }

// 2 to the power of e - 127.
fn power(e: vec4<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(e << vec4<u32>(23u)); }

fn cut(x: vec4<f32>, scale: vec4<f32>) -> vec4<i32> { return vec4<i32>(x * scale); }

fn add(sum: vec4<f32>, a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) -> vec4<f32> {
  let most = max(abs(sum), max(max(abs(a), abs(b)), max(abs(c), abs(d))));
  let plain = sum + ((a + b) + (c + d));
  let e = exponent(most);
  // Neither tiny, nor inf or NaN (which max may drop).
  let usual = (e > vec4<u32>(30u)) & (exponent(plain) < vec4<u32>(255u));
  let near = select(vec4<u32>(127u), e, usual);
  let scale = power(vec4<u32>(277u) - near);
  let units = select(vec4<i32>(), cut(sum, scale) + cut(a, scale) + cut(b, scale) + cut(c, scale) + cut(d, scale), usual);
  let size = vec4<u32>(abs(units));
  let spare = max(vec4<u32>(32u) - countLeadingZeros(size), vec4<u32>(24u)) - vec4<u32>(24u);
  let kept = vec4<f32>((size >> spare) << spare) * power(near - vec4<u32>(23u));
  return select(plain, select(kept, -kept, units < vec4<i32>()), usual);
}
//% endif

fn multiply_add(a: Left, b: Right, c: Sums) -> Sums {
  var out = c;
  for (var r = 0u; r < 2u; r += 1u) {
//% if FRAGMENTS == "f16"
    for (var k = 0u; k < ${K}u; k += 4u) {
      out[r] = add(out[r], a[r][k] * b[k], a[r][k + 1u] * b[k + 1u], a[r][k + 2u] * b[k + 2u], a[r][k + 3u] * b[k + 3u]);
    }
//% else
    for (var k = 0u; k < ${K}u; k += 1u) { out[r] += a[r][k] * b[k]; }
//% endif
  }
  return out;
}

fn store_sums(offset: u32, stride: u32, c: Sums, lane: u32) {
  for (var r = 0u; r < 2u; r += 1u) {
    tile[offset + ((lane >> 2u) * 2u + r) * stride + (lane & 3u)] = bitcast<vec4<u32>>(c[r]);
  }
}
//% endmacro

//% macro arguments()
//%- endmacro
//% macro group()
group_id(wg)
//%- endmacro
//% macro position()
  let warp = li >> 5u;
  let lane = li & 31u;
//% endmacro

//% macro store_unit(i, v)
    tile[${i}] = ${v};
//% endmacro
//% macro result_unit(i)
bitcast<vec4<${SUM}>>(tile[${i}])
//%- endmacro
//% macro store_result_unit(i, v)
    tile[${i}] = bitcast<vec4<u32>>(${v});
//% endmacro

//% macro left(name, offset, stride, columns=false)
      let ${name} = load_left((${offset}) * ${UNIT}u, ${"1u" if columns else "(" ~ stride ~ ") * " ~ UNIT ~ "u"}, ${"(" ~ stride ~ ") * " ~ UNIT ~ "u" if columns else "1u"}, lane);
//% endmacro
//% macro right(name, offset, stride, columns=false)
      let ${name} = load_right((${offset}) * ${UNIT}u, ${"1u" if columns else "(" ~ stride ~ ") * " ~ UNIT ~ "u"}, ${"(" ~ stride ~ ") * " ~ UNIT ~ "u" if columns else "1u"}, lane);
//% endmacro

//% macro zero(name)
  var ${name} = Sums();
//% endmacro
//% macro clear(c)
      ${c} = Sums();
//% endmacro
//% macro multiply_add(c, a, b)
      ${c} = multiply_add(${a}, ${b}, ${c});
//% endmacro
//% macro store(c, offset, stride)
    store_sums(${offset}, ${stride}, ${c}, lane);
//% endmacro

//% macro shuffle_xor(to, value, mask)
    exchange[li] = bitcast<u32>(${value});
    workgroupBarrier();
    let ${to} = bitcast<f32>(exchange[li ^ ${mask}u]);
    workgroupBarrier();
//% endmacro
// All invocations of the workgroup are asked.
//% macro any(to, condition, threads)
    exchange[li] = select(0u, 1u, ${condition});
    workgroupBarrier();
    if (li == 0u) {
      any_lane = 0u;
      for (var n = 0u; n < ${threads}u; n += 1u) { any_lane |= exchange[n]; }
    }
    let ${to} = workgroupUniformLoad(&any_lane) != 0u;
//% endmacro
