// /// kernel
// doc = """
// One step of stochastic gradient descent, computed in f32; it changes momentum and param in place.
//
// With g = grad + weight_decay * param, the step is param -= lr * g. With a buffer, which is 0
// before the first step, it is buffer = momentum * buffer + g and param -= lr * buffer; with
// nesterov, it is param -= lr * (g + momentum * buffer) with the new buffer."""
// source = "Sutskever, Martens, Dahl and Hinton 2013; torch.optim.SGD"
// axes.T = { values = ["f32", "f16"], pick = "dtype(param)" }
// axes.G = { values = ["f32", "f16"], pick = "dtype(grad)" }
// axes.MOMENTUM = { values = [false, true], pick = "True if momentum_buffer else False" }
// axes.VEC = { values = [1, 4], pick = "4 if it.vec(4) else 1" }
// inputs.grad = { dtype = "G", vec = "VEC", like = "param" }
// inputs.rate = { dtype = "f32", optional = true, index = false, doc = "One element, in place of `lr`." }
// inputs.settings = { dtype = "f32", optional = true, index = false, axes = "w", doc = "(3,), in place of `lr`, `momentum` and `weight_decay`." }
// inputs.skip = { dtype = "u32", optional = true, index = false, doc = "One element: if it is not 0, nothing changes." }
// outputs.momentum_buffer = { dtype = "f32", vec = "VEC", when = "MOMENTUM", optional = true, like = "param", in_place = true, doc = "The running sum of gradients." }
// outputs.param = { dtype = "T", vec = "VEC", in_place = true, doc = "The parameter." }
// iterate = "nd"
// vectors = "VEC"
// params.has_rate = { type = "u32", value = "1 if rate else 0" }
// params.has_settings = { type = "u32", value = "1 if settings else 0" }
// params.has_skip = { type = "u32", value = "1 if skip else 0" }
// params.lr = { type = "f32", default = 0.001, doc = "Learning rate." }
// params.momentum = { type = "f32", default = 0.0, doc = "Factor of the buffer." }
// params.weight_decay = { type = "f32", default = 0.0, doc = "Factor of param in its gradient." }
// params.nesterov = { type = "u32", default = false, doc = "True adds momentum times the new buffer to the gradient." }
// bytes = "grad.nbytes + 2 * param.nbytes + (2 * momentum_buffer.nbytes if momentum_buffer else 0)"
// operations = "(8 if momentum_buffer else 4) * param.size"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation updates one element, or a vector of four if all tensors have whole vectors along
// the innermost axis (after axes are merged). Bytes of an element in f32: with momentum, 12 are
// read and 8 are written; without momentum, 8 and 4.
//% set value = "f32" if VEC == 1 else "vec4<f32>"

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  if (p.has_skip == 1u) {
    if (skip_load(p.skip_off) != 0u) { return; }
  }
  let at = param_index(i);
  var g = ${value}(grad_load(grad_index(i)));
  let w = ${value}(param_mem[at]);
//% if MOMENTUM
  let at_buffer = momentum_buffer_index(i);
  var v = momentum_buffer_mem[at_buffer];
//% endif
  var lr = p.lr;
  var momentum = p.momentum;
  var weight_decay = p.weight_decay;
  if (p.has_settings == 1u) {
    lr = settings_load(p.settings_off);
    momentum = settings_load(p.settings_off + p.settings_ws);
    weight_decay = settings_load(p.settings_off + 2u * p.settings_ws);
  }
  if (p.has_rate == 1u) { lr = rate_load(p.rate_off); }
  if (weight_decay != 0.0f) { g += weight_decay * w; }
//% if MOMENTUM
  v = momentum * v + g;
  momentum_buffer_store(at_buffer, v);
  if (p.nesterov == 1u) {
    g += momentum * v;
  } else {
    g = v;
  }
//% endif
  param_store(at, w - lr * g);
}
