//% macro multiply(a, b)
fma(${a}, ${b}, 0.0f)
//%- endmacro
