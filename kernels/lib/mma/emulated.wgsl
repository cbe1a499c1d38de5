// Emulated matrix units, for tests on devices without matrix units; see subgroup_matrix. A subgroup
// is 32 neighbouring invocations. A lane holds two rows of four columns of a result, and the parts
// of operands that it multiplies for them. It copies these parts when it loads them, so tests find
// a tile that is overwritten too early. No f16 and no subgroup operations are needed.
//
// Sums of halves are at least as inexact as on known matrix units (docs/design/matrix-units.md):
// before eight products and the sum so far are added, each is truncated to a multiple of a quarter
// of the last place of the largest of these nine; then the new sum is truncated to 24 bits.
//% set M, N, K = 16, 16, 16 if FRAGMENTS == "f16" else 32
//% set SUM = "f32" if FRAGMENTS == "f16" else "u32" if FRAGMENTS == "u8" else "i32"
//% set UNIT = 8 if FRAGMENTS == "f16" else 16

//% macro memory(operands, results, threads)
alias Sums = array<vec4<${SUM}>, 2>;
// Two 16-byte units along k of each row (Left: two rows) or of each column (Right: four columns).
alias Left = array<vec4<u32>, 4>;
alias Right = array<vec4<u32>, 8>;
var<workgroup> tile: array<vec4<u32>, ${[operands, results] | max}>;
var<workgroup> exchange: array<u32, ${threads}>;
var<workgroup> any_lane: u32;

fn load_left(offset: u32, stride: u32, lane: u32) -> Left {
  let at = offset + (lane >> 2u) * 2u * stride;
  return Left(tile[at], tile[at + 1u], tile[at + stride], tile[at + stride + 1u]);
}

fn load_right(offset: u32, stride: u32, lane: u32) -> Right {
  let at = offset + (lane & 3u) * 4u * stride;
  return Right(
//% for n in range(4)
    tile[at + ${n}u * stride], tile[at + ${n}u * stride + 1u],
//% endfor
  );
}

//% if FRAGMENTS == "f16"
// The first or second halves of two words as one word.
fn low_halves(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> { return (a & vec4<u32>(0xffffu)) | (b << vec4<u32>(16u)); }
fn high_halves(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> { return (a >> vec4<u32>(16u)) | (b & vec4<u32>(0xffff0000u)); }

// k is the axis of rows: at each k, two rows are one word.
fn load_left_columns(offset: u32, stride: u32, lane: u32) -> Left {
  let at = offset + (lane >> 4u);
  let word = (lane >> 2u) & 3u;
//% for k in range(16)
  let w${k} = tile[at + ${k}u * stride][word];
//% endfor
//% for half in range(2)
//% set k = 8 * half
  let a${half} = vec4<u32>(w${k}, w${k + 2}, w${k + 4}, w${k + 6});
  let b${half} = vec4<u32>(w${k + 1}, w${k + 3}, w${k + 5}, w${k + 7});
//% endfor
  return Left(low_halves(a0, b0), low_halves(a1, b1), high_halves(a0, b0), high_halves(a1, b1));
}

// k is the axis of rows: at each k, four columns are two words.
fn load_right_rows(offset: u32, stride: u32, lane: u32) -> Right {
  let at = offset + ((lane & 3u) >> 1u);
  let word = (lane & 1u) * 2u;
//% for k in range(16)
  let x${k} = tile[at + ${k}u * stride][word];
  let y${k} = tile[at + ${k}u * stride][word + 1u];
//% endfor
//% for w in "xy"
//% for half in range(2)
//% set k = 8 * half
  let a${w}${half} = vec4<u32>(${w}${k}, ${w}${k + 2}, ${w}${k + 4}, ${w}${k + 6});
  let b${w}${half} = vec4<u32>(${w}${k + 1}, ${w}${k + 3}, ${w}${k + 5}, ${w}${k + 7});
//% endfor
//% endfor
  return Right(
//% for w in "xy"
    low_halves(a${w}0, b${w}0), low_halves(a${w}1, b${w}1), high_halves(a${w}0, b${w}0), high_halves(a${w}1, b${w}1),
//% endfor
  );
}

// The bits of a magnitude's exponent.
fn exponent(x: vec4<f32>) -> vec4<u32> { return (bitcast<vec4<u32>>(x) >> vec4<u32>(23u)) & vec4<u32>(255u); }

// 2 to the power of e - 127.
fn power(e: vec4<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(e << vec4<u32>(23u)); }

fn cut(x: vec4<f32>, scale: vec4<f32>) -> vec4<i32> { return vec4<i32>(x * scale); }

// Adds the products of one row a with four columns b0 to b3, over eight steps of k, to `sum`.
fn add(sum: vec4<f32>, a: vec4<u32>, b0: vec4<u32>, b1: vec4<u32>, b2: vec4<u32>, b3: vec4<u32>) -> vec4<f32> {
  var most = abs(sum);
//% for w in range(4)
  let a${w} = unpack2x16float(a[${w}]);
//% for n in range(4)
  let b${w}_${n} = unpack2x16float(b${n}[${w}]);
//% endfor
//% for e in "xy"
  let x${w}${e} = a${w}.${e} * vec4<f32>(b${w}_0.${e}, b${w}_1.${e}, b${w}_2.${e}, b${w}_3.${e});
  most = max(most, abs(x${w}${e}));
//% endfor
//% endfor
  let plain = sum + (((x0x + x0y) + (x1x + x1y)) + ((x2x + x2y) + (x3x + x3y)));
  let e = exponent(most);
  // True if the exponent is not tiny and no term is inf or NaN (max may drop a NaN, so `plain` is
  // tested).
  let usual = (e > vec4<u32>(30u)) & (exponent(plain) < vec4<u32>(255u));
  let near = select(vec4<u32>(253u), e, usual);
  let scale = power(vec4<u32>(279u) - near);  // two bits below the last place
  var units = cut(sum, scale);
//% for w in range(4)
  units += cut(x${w}x, scale) + cut(x${w}y, scale);
//% endfor
  let size = vec4<u32>(abs(units));
  let spare = max(vec4<u32>(32u) - countLeadingZeros(size), vec4<u32>(24u)) - vec4<u32>(24u);
  let kept = vec4<f32>((size >> spare) << spare) * power(near - vec4<u32>(25u));
  return select(plain, select(kept, -kept, units < vec4<i32>()), usual);
}
//% else
fn add(sum: vec4<${SUM}>, a: vec4<u32>, b0: vec4<u32>, b1: vec4<u32>, b2: vec4<u32>, b3: vec4<u32>) -> vec4<${SUM}> {
  var out = sum;
//% for w in range(4)
  out += vec4<${SUM}>(${"dot4I8Packed" if FRAGMENTS == "i8" else "dot4U8Packed"}(a[${w}], b0[${w}]), ${"dot4I8Packed" if FRAGMENTS == "i8" else "dot4U8Packed"}(a[${w}], b1[${w}]),
    ${"dot4I8Packed" if FRAGMENTS == "i8" else "dot4U8Packed"}(a[${w}], b2[${w}]), ${"dot4I8Packed" if FRAGMENTS == "i8" else "dot4U8Packed"}(a[${w}], b3[${w}]));
//% endfor
  return out;
}
//% endif

fn multiply_add(a: Left, b: Right, c: Sums) -> Sums {
  return Sums(
//% for r in range(2)
    add(add(c[${r}], a[${2 * r}], b[0], b[2], b[4], b[6]), a[${2 * r + 1}], b[1], b[3], b[5], b[7]),
//% endfor
  );
}

fn store_sums(offset: u32, stride: u32, c: Sums, lane: u32) {
  let at = offset + (lane >> 2u) * 2u * stride + (lane & 3u);
  tile[at] = bitcast<vec4<u32>>(c[0]);
  tile[at + stride] = bitcast<vec4<u32>>(c[1]);
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
//% macro result_element(i, c)
bitcast<${SUM}>(tile[${i}][${c}])
//%- endmacro
//% macro store_result_unit(i, v)
    tile[${i}] = bitcast<vec4<u32>>(${v});
//% endmacro

// Bytes are read only along k.
//% macro left(name, offset, stride, columns=false)
      let ${name} = load_left${"_columns" if columns else ""}(${offset}, ${stride}, lane);
//% endmacro
//% macro right(name, offset, stride, columns=false)
      let ${name} = load_right${"" if columns else "_rows"}(${offset}, ${stride}, lane);
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
// True if the condition holds in any invocation of the workgroup.
//% macro any(to, condition, threads)
    exchange[li] = select(0u, 1u, ${condition});
    workgroupBarrier();
    if (li == 0u) {
      any_lane = 0u;
      for (var n = 0u; n < ${threads}u; n += 1u) { any_lane |= exchange[n]; }
    }
    let ${to} = workgroupUniformLoad(&any_lane) != 0u;
//% endmacro
