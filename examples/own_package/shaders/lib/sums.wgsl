// The sum of one number of each invocation, through workgroup memory. Both bodies of norm use it.

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
