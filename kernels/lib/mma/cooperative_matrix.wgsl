// Matrix units in naga's dialect (wgpu_cooperative_matrix); see subgroup_matrix. Drivers need
// arrays of halves for operands and of f32 for results, so there are two arrays. coopLoadT loads a
// matrix whose rows are contiguous.
//% set M, N, K = 16, 16, 16
//% set SUM = "f32"
//% set UNIT = 8

//% macro memory(operands, results, threads)
var<workgroup> tile: array<vec4<f16>, ${2 * operands}>;
var<workgroup> sums: array<vec4<f32>, ${results}>;
//% endmacro

//% macro arguments()
, @builtin(subgroup_id) warp: u32, @builtin(subgroup_invocation_id) lane: u32
//%- endmacro
// The number of the workgroup. This is an expression, because naga treats the result of a function as
// non-uniform.
//% macro group()
wg.x + (wg.y << 15u)
//%- endmacro
//% macro position()
//% endmacro

//% macro store_unit(i, v)
    {
      let unit = ${v};
      let low = unpack2x16float(unit.x);
      let high = unpack2x16float(unit.y);
      tile[(${i}) * 2u] = vec4<f16>(vec4<f32>(low, high));
      tile[(${i}) * 2u + 1u] = vec4<f16>(vec4<f32>(unpack2x16float(unit.z), unpack2x16float(unit.w)));
    }
//% endmacro

//% macro result_unit(i)
sums[${i}]
//%- endmacro
//% macro result_element(i, c)
sums[${i}][${c}]
//%- endmacro
//% macro store_result_unit(i, v)
    sums[${i}] = ${v};
//% endmacro

//% macro left(name, offset, stride, columns=false)
      let ${name} = coopLoad${"" if columns else "T"}<coop_mat16x16<f16, A>>(&tile[(${offset}) * 2u], (${stride}) * 2u);
//% endmacro
//% macro right(name, offset, stride, columns=false)
      let ${name} = coopLoad${"" if columns else "T"}<coop_mat16x16<f16, B>>(&tile[(${offset}) * 2u], (${stride}) * 2u);
//% endmacro

//% macro zero(name)
  var ${name}: coop_mat16x16<f32, C>;
//% endmacro
//% macro clear(c)
      ${c} = coop_mat16x16<f32, C>();
//% endmacro
//% macro multiply_add(c, a, b)
      ${c} = coopMultiplyAdd(${a}, ${b}, ${c});
//% endmacro
//% macro store(c, offset, stride)
    coopStoreT(${c}, &sums[${offset}], ${stride});
//% endmacro

//% macro shuffle_xor(to, value, mask)
    let ${to} = subgroupShuffleXor(${value}, ${mask}u);
//% endmacro
//% macro any(to, condition, threads)
    let ${to} = subgroupAny(${condition});
//% endmacro
