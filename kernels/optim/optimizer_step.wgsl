// /// kernel
// doc = """
// One step of an optimiser by its rule, computed in f32; it changes states and param in place.
//
// The rules are "ema" (param becomes a running average of grad), "lion", "adagrad", "rmsprop",
// "rmsprop_centered", "rmsprop_momentum", "rmsprop_centered_momentum", "amsgrad" and "nadam". The
// design page of the family has their formulas and the meaning of `settings`."""
// source = "Chen et al. 2023 (Lion, optax.lion); Duchi et al. 2011 (Adagrad), Tieleman and Hinton 2012 (RMSprop), Reddi et al. 2018 (AMSGrad), Dozat 2016 (NAdam): torch.optim"
// axes.RULE = ["ema", "lion", "adagrad", "rmsprop", "rmsprop_momentum", "rmsprop_centered", "rmsprop_centered_momentum", "amsgrad", "nadam"]
// axes.T = { values = ["f32", "f16"], pick = "dtype(param)" }
// axes.G = { values = ["f32", "f16"], pick = "dtype(grad)" }
// axes.VEC = { values = [1, 4], pick = "4 if it.vec(4) else 1" }
// inputs.grad = { dtype = "G", vec = "VEC", like = "param" }
// inputs.rate = { dtype = "f32", optional = true, index = false, doc = "One element: the learning rate, in place of settings[6]." }
// inputs.settings = { dtype = "f32", index = false, axes = "w", doc = "(15,): a first decay, 1 minus the decay, and its logarithm; the same three for a second decay; learning rate, eps, weight decay; momentum, or the decay of the learning rate; 1 if weight decay is decoupled from the gradient; and four numbers that `optimizer_count` writes." }
// inputs.skip = { dtype = "u32", optional = true, index = false, doc = "One element: if it is not 0, nothing changes." }
// outputs.first = { dtype = "f32", vec = "VEC", when = "RULE != 'ema'", optional = true, like = "param", in_place = true, doc = "The first state; all rules but ema have it." }
// outputs.second = { dtype = "f32", vec = "VEC", when = "RULE in ('rmsprop_momentum', 'rmsprop_centered', 'rmsprop_centered_momentum', 'amsgrad', 'nadam')", optional = true, like = "param", in_place = true, doc = "The second state, for rules with two or more." }
// outputs.third = { dtype = "f32", vec = "VEC", when = "RULE in ('rmsprop_centered_momentum', 'amsgrad')", optional = true, like = "param", in_place = true, doc = "The third state, for rules with three." }
// outputs.param = { dtype = "T", vec = "VEC", in_place = true, doc = "The parameter." }
// options.rule = { type = "str", default = "ema", doc = "The rule, by name." }
// iterate = "nd"
// vectors = "VEC"
// params.has_rate = { type = "u32", value = "1 if rate else 0" }
// params.has_skip = { type = "u32", value = "1 if skip else 0" }
// bytes = "grad.nbytes + settings.nbytes + 2 * param.nbytes + 2 * ((first.nbytes if first else 0) + (second.nbytes if second else 0) + (third.nbytes if third else 0))"
// operations = "16 * param.size"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation updates one element, or a vector of four if all tensors have whole vectors along
// the innermost axis (after axes are merged). Bytes of an element in f32: 8 are read and 4 written,
// and 8 more are moved for each state. At most eight storage buffers are bound.
//% set value = "f32" if VEC == 1 else "vec4<f32>"

fn setting(i: u32) -> f32 { return settings_load(p.settings_off + i * p.settings_ws); }

//% if RULE in ("ema", "lion", "amsgrad", "nadam") or "centered" in RULE
// A running average: `keep` times the old value plus 1 - keep (`share`) times the new value. For
// `keep` near 1, the form with the difference has no bias; for `keep` near 0, it would lose a small
// new value.
fn blend(old: ${value}, next: ${value}, keep: f32, share: f32) -> ${value} {
  if (share < 0.5f) { return old + share * (next - old); }
  return keep * old + share * next;
}
//% endif

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
//% if RULE == "ema"
  param_store(at, blend(w, g, setting(0u), setting(1u)));
//% else
  let at_first = first_index(i);
  var first = first_mem[at_first];
  var lr = setting(6u);
  if (p.has_rate == 1u) { lr = rate_load(p.rate_off); }
  let weight_decay = setting(8u);
//% if RULE == "lion"
  let step = lr * sign(blend(first, g, setting(0u), setting(1u)));
  first = blend(first, g, setting(3u), setting(4u));
  first_store(at_first, first);
  param_store(at, w - (lr * weight_decay * w + step));
//% else
//% if RULE in ("amsgrad", "nadam")
  var shrink = 0.0f;
  if (setting(10u) != 0.0f) {
    shrink = lr * weight_decay;
  } else if (weight_decay != 0.0f) {
    g += weight_decay * w;
  }
  let at_second = second_index(i);
  var second = second_mem[at_second];
  first = blend(first, g, setting(0u), setting(1u));
  second = setting(3u) * second + setting(4u) * (g * g);
//% if RULE == "amsgrad"
  let at_third = third_index(i);
  let most = max(third_mem[at_third], second);
  third_store(at_third, most);
  let step = lr * setting(11u) * (first / (sqrt(most) * setting(12u) + setting(7u)));
//% else
  let below = sqrt(second) * setting(12u) + setting(7u);
  let step = lr * ((setting(11u) * g + setting(13u) * first) / below);
//% endif
  first_store(at_first, first);
  second_store(at_second, second);
  param_store(at, w - (shrink * w + step));
//% else
  if (weight_decay != 0.0f) { g += weight_decay * w; }
//% if RULE == "adagrad"
  first += g * g;
  first_store(at_first, first);
  param_store(at, w - lr * setting(11u) * (g / (sqrt(first) + setting(7u))));
//% else
  first = setting(0u) * first + setting(1u) * (g * g);
  first_store(at_first, first);
//% if "centered" in RULE
  let at_second = second_index(i);
  let mean = blend(second_mem[at_second], g, setting(0u), setting(1u));
  second_store(at_second, mean);
  // The difference is clamped, because rounding may make it negative.
  var step = g / (sqrt(max(first - mean * mean, ${value}())) + setting(7u));
//% else
  var step = g / (sqrt(first) + setting(7u));
//% endif
//% if "momentum" in RULE
//% set buffer = "third" if "centered" in RULE else "second"
  let at_buffer = ${buffer}_index(i);
  step = setting(9u) * ${buffer}_mem[at_buffer] + step;
  ${buffer}_store(at_buffer, step);
//% endif
  param_store(at, w - lr * step);
//% endif
//% endif
//% endif
//% endif
}
