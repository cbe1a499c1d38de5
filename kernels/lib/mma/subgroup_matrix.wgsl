// Matrix units in Tint's dialect (chromium_experimental_subgroup_matrix). The other libraries of
// this folder have the same macros; docs/design/matrix-units.md describes them. FRAGMENTS is the
// type of the operands' elements.
//
// Operands and results pass through one array of 16-byte units in workgroup memory, `tile`: eight
// halves, sixteen bytes or four f32 each. All offsets and strides count units. A macro that takes a
// name declares a variable.
//% set M, N, K = 16, 16, 16 if FRAGMENTS == "f16" else 32
//% set SUM = "f32" if FRAGMENTS == "f16" else "u32" if FRAGMENTS == "u8" else "i32"
// Elements of an operand in a 16-byte unit.
//% set UNIT = 8 if FRAGMENTS == "f16" else 16

// `operands`, `results`: the number of units that operands and results need; they share the same
// memory at different times.
//% macro memory(operands, results, threads)
var<workgroup> tile: array<vec4<u32>, ${[operands, results] | max}>;
//% endmacro

// More arguments of the entry point; and the declarations of `lane` and of `warp`, the number of
// the subgroup.
//% macro arguments()
, @builtin(subgroup_id) warp: u32, @builtin(subgroup_invocation_id) lane: u32
//%- endmacro
// The number of the workgroup.
//% macro group()
group_id(wg)
//%- endmacro
//% macro position()
//% endmacro

//% macro store_unit(i, v)
    tile[${i}] = ${v};
//% endmacro

// A unit of results.
//% macro result_unit(i)
bitcast<vec4<${SUM}>>(tile[${i}])
//%- endmacro
// One element of a unit.
//% macro result_element(i, c)
bitcast<${SUM}>(tile[${i}][${c}])
//%- endmacro
//% macro store_result_unit(i, v)
    tile[${i}] = bitcast<vec4<u32>>(${v});
//% endmacro

// Loads M x K elements of the left operand, or K x N of the right operand. With `columns`, units
// lie along columns, not along rows.
//% macro left(name, offset, stride, columns=false)
      let ${name} = subgroupMatrixLoad<subgroup_matrix_left<${FRAGMENTS}, ${K}, ${M}>, ${"col_major" if columns else "row_major"}>(&tile, ${offset}, ${stride});
//% endmacro
//% macro right(name, offset, stride, columns=false)
      let ${name} = subgroupMatrixLoad<subgroup_matrix_right<${FRAGMENTS}, ${N}, ${K}>, ${"col_major" if columns else "row_major"}>(&tile, ${offset}, ${stride});
//% endmacro

//% macro zero(name)
  var ${name} = subgroup_matrix_result<${SUM}, ${N}, ${M}>();
//% endmacro
//% macro clear(c)
      ${c} = subgroup_matrix_result<${SUM}, ${N}, ${M}>();
//% endmacro
//% macro multiply_add(c, a, b)
      ${c} = subgroupMatrixMultiplyAccumulate(${a}, ${b}, ${c});
//% endmacro
//% macro store(c, offset, stride)
    subgroupMatrixStore<row_major>(&tile, ${offset}, ${c}, ${stride});
//% endmacro

// Subgroup operations in uniform control flow of the workgroup. Each declares `to`.
//% macro shuffle_xor(to, value, mask)
    let ${to} = subgroupShuffleXor(${value}, ${mask}u);
//% endmacro
// True if the condition holds in any lane of the subgroup; in emulated.wgsl, of the workgroup.
//% macro any(to, condition, threads)
    let ${to} = subgroupAny(${condition});
//% endmacro
