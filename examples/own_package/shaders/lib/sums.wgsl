// The sum of a number of each invocation, through workgroup memory; for both bodies of norm.

//% macro memory(WG)
var<workgroup> shared_sums: array<f32, ${WG}>;
//% endmacro

// `value` becomes the sum over the workgroup in invocation 0.
//% macro added(value, WG)
  shared_sums[li] = ${value};
  for (var apart = ${WG} / 2u; apart > 0u; apart /= 2u) {
    workgroupBarrier();
    if (li < apart) { shared_sums[li] += shared_sums[li + apart]; }
  }
  ${value} = shared_sums[li];
//% endmacro
