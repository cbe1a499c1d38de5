// Shared.

//% macro twice(x)
//% for k in range(2)
  ${x} = ${x} * ${FACTOR};
//% endfor
//% endmacro
