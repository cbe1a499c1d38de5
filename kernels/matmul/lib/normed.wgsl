// Code that the bodies of rms_norm_linear share.

//% macro functions()
${epilogue.functions(("bias",))}

${gated.functions()}

// The factor of the sums, from the sum of the row's squares.
fn factor_of(squares: f32) -> f32 { return inverseSqrt(squares / f32(p.depth) + p.eps); }
//% endmacro
