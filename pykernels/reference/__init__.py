"""What each kernel means, in numpy: one module and one function per kernel, of the same name.

`reference.<kernel>.<kernel>(*inputs, **scalars)` returns the output: exact for data movement, else
float64 computed from the inputs (and scalars) as the kernel gets them, rounded to their dtypes. A
kernel without inputs takes `dst` as it was before the call and returns it as it is after it.
"""
