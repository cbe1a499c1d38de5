// /// kernel
// doc = """
// One step of Adam, computed in f32; it changes moments and param in place.
//
// With g = grad + weight_decay * param: exp_avg = beta1 exp_avg + (1 - beta1) g, exp_avg_sq =
// beta2 exp_avg_sq + (1 - beta2) g g, and param -= lr m / (sqrt(v) + eps), where m and v are the
// moments divided by 1 - beta1^t and 1 - beta2^t. Moments are 0 before the first step."""
// source = "Kingma and Ba 2015, Adam; Loshchilov and Hutter 2019, Decoupled weight decay; torch.optim"
// axes.T = { values = ["f32", "f16"], pick = "dtype(param)" }
// axes.G = { values = ["f32", "f16"], pick = "dtype(grad)" }
// axes.VEC = { values = [1, 4], pick = "4 if it.vec(4) else 1" }
// inputs.grad = { dtype = "G", vec = "VEC", like = "param" }
// inputs.count = { dtype = "i32", optional = true, index = false, doc = "One element: the number of steps before this one, in place of `step`." }
// inputs.rate = { dtype = "f32", optional = true, index = false, doc = "One element, in place of `lr`." }
// inputs.settings = { dtype = "f32", optional = true, index = false, axes = "w", doc = "(9,), in place of the betas, `lr`, `eps` and `weight_decay`: beta1, 1 - beta1, ln(beta1), beta2, 1 - beta2, ln(beta2), lr, eps, weight_decay." }
// inputs.skip = { dtype = "u32", optional = true, index = false, doc = "One element: if it is not 0, nothing changes." }
// outputs.exp_avg = { dtype = "f32", vec = "VEC", like = "param", in_place = true, doc = "First moment." }
// outputs.exp_avg_sq = { dtype = "f32", vec = "VEC", like = "param", in_place = true, doc = "Second moment." }
// outputs.param = { dtype = "T", vec = "VEC", in_place = true, doc = "The parameter." }
// options.beta1 = { type = "float", default = 0.9, doc = "Decay of the first moment, in [0, 1)." }
// options.beta2 = { type = "float", default = 0.999, doc = "Decay of the second moment, in [0, 1)." }
// iterate = "nd"
// vectors = "VEC"
// params.has_count = { type = "u32", value = "1 if count else 0" }
// params.has_rate = { type = "u32", value = "1 if rate else 0" }
// params.has_settings = { type = "u32", value = "1 if settings else 0" }
// params.has_skip = { type = "u32", value = "1 if skip else 0" }
// params."decay1 rest1 decay2 rest2 log1 log2" = { type = "f32" }
// params.step = { type = "i32", default = 1, doc = "The number t of this step; the first step is 1." }
// params.lr = { type = "f32", default = 0.001, doc = "Learning rate." }
// params.eps = { type = "f32", default = 1e-8, doc = "Added to the root of the second moment." }
// params.weight_decay = { type = "f32", default = 0.0, doc = "Factor of param in its gradient; for adamw_step, lr * weight_decay is the share by which param shrinks." }
// params.decoupled = { type = "u32", default = false }
// wrappers.adamw_step = { decoupled = true, doc = """
// One step of AdamW, which is Adam with decoupled weight decay, computed in f32; it changes moments
// and param in place.
//
// exp_avg = beta1 exp_avg + (1 - beta1) grad, exp_avg_sq = beta2 exp_avg_sq + (1 - beta2) grad grad,
// and param -= lr weight_decay param + lr m / (sqrt(v) + eps), where m and v are the moments divided
// by 1 - beta1^t and 1 - beta2^t. Moments are 0 before the first step.""" }
// uses = ["exponentials"]
// bytes = "grad.nbytes + 2 * (exp_avg.nbytes + exp_avg_sq.nbytes + param.nbytes)"
// operations = "16 * param.size"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation updates one element, or a vector of four if all tensors have whole vectors along
// the innermost axis (after axes are merged). Bytes of an element in f32: 16 are read and 12 are
// written.
//% set value = "f32" if VEC == 1 else "vec4<f32>"
alias V = f32;
alias U = u32;
alias I = i32;
${exponentials.accurate_expm1()}

fn setting(i: u32) -> f32 { return settings_load(p.settings_off + i * p.settings_ws); }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  if (p.has_skip == 1u) {
    if (skip_load(p.skip_off) != 0u) { return; }
  }
  let at = param_index(i);
  let at_first = exp_avg_index(i);
  let at_second = exp_avg_sq_index(i);
  var g = ${value}(grad_load(grad_index(i)));
  let w = ${value}(param_mem[at]);
  var first = exp_avg_mem[at_first];
  var second = exp_avg_sq_mem[at_second];

  var beta1 = vec3<f32>(p.decay1, p.rest1, p.log1);  // beta1, 1 - beta1, ln(beta1)
  var beta2 = vec3<f32>(p.decay2, p.rest2, p.log2);
  var lr = p.lr;
  var eps = p.eps;
  var weight_decay = p.weight_decay;
  if (p.has_settings == 1u) {
    beta1 = vec3<f32>(setting(0u), setting(1u), setting(2u));
    beta2 = vec3<f32>(setting(3u), setting(4u), setting(5u));
    lr = setting(6u);
    eps = setting(7u);
    weight_decay = setting(8u);
  }
  if (p.has_rate == 1u) { lr = rate_load(p.rate_off); }
  var t = p.step;
  if (p.has_count == 1u) { t = count_load(p.count_off) + 1; }
  // 1 - beta^t without cancellation.
  let size = -lr / accurate_expm1(f32(t) * beta1.z);
  let spread = inverseSqrt(-accurate_expm1(f32(t) * beta2.z));

  var shrink = 0.0f;
  if (p.decoupled == 1u) {
    shrink = lr * weight_decay;
  } else if (weight_decay != 0.0f) {
    g += weight_decay * w;
  }
  // There are two forms of the running average. For beta1 near 1, the form with the difference has
  // no bias; for beta1 near 0, it would lose a small g.
  if (beta1.y < 0.5f) {
    first += beta1.y * (g - first);
  } else {
    first = beta1.x * first + beta1.y * g;
  }
  second = beta2.x * second + beta2.y * (g * g);
  let step = size * (first / (sqrt(second) * spread + eps));
  exp_avg_store(at_first, first);
  exp_avg_sq_store(at_second, second);
  param_store(at, w - (shrink * w + step));
}
