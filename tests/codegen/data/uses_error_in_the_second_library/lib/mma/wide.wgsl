//% macro multiply(a, b)
fma(${a}, ${c}, 0.0f)
//%- endmacro
