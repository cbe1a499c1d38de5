// /// kernel
// doc = """
// Solve a @ dst = b for square matrices a, by LU factors with partial pivoting.
//
// Computed in f32. A singular matrix gives infinities or NaN."""
// source = "numpy.linalg.solve, torch linalg.solve; Golub and Van Loan, Matrix Computations, section 3.4"
// bodies = ["lu_factor", "lu_panel", "lu_swap", "solve_tri"]
// inputs.a = { dtype = "f32", doc = "(..., n, n)" }
// inputs.b = { dtype = "f32", doc = "(..., n, k)" }
// outputs.dst = { dtype = "f32", doc = "(..., n, k)" }
// operations = "a.size * a.shape[-1] * 2 // 3 + 2 * dst.size * a.shape[-1]"
// ///
