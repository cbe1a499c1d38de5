// Shared.

//% macro twice(x)
//% for k in range(2)
  ${x} = ${x} * 2.0;
//% endfor
//% endmacro
