// /// kernel
// doc = """
// The Euclidean norm of all elements of x.
//
// A reduction over workgroups: each writes a sum of squares, and one workgroup adds these."""
// bodies = ["norm_partial", "norm_finish"]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'" }
// outputs.dst = { dtype = "*", dtypes = ["float32"], bind = "'u32'", doc = "One element." }
// operations = "2 * x.size"
// ///
