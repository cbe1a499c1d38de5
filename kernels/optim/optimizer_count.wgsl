// /// kernel
// doc = """
// Count a step of an optimiser, and write the numbers of `optimizer_step` that depend on the count.
//
// Let t be the number of the step that begins, counted from 1. Then settings[11] is 1 / (1 + (t -
// 1) settings[9]) for adagrad and 1 / (1 - beta1^t) for amsgrad; settings[12] is 1 / sqrt(1 -
// beta2^t) for amsgrad and nadam. For nadam, let mu be beta1 (1 - 0.96^(t settings[9]) / 2);
// settings[14] is the product of all mu so far, settings[11] is (1 - mu) / (1 - product), and
// settings[13] is mu / (1 - product) of the next step."""
// source = "torch.optim"
// axes.RULE = ["adagrad", "amsgrad", "nadam"]
// inputs.skip = { dtype = "u32", optional = true, index = false, doc = "One element: if it is not 0, the step does not count." }
// outputs.count = { dtype = "i32", in_place = true, index = false, doc = "One element: the number of steps so far." }
// outputs.settings = { dtype = "f32", in_place = true, index = false, axes = "w", doc = "(15,), as in `optimizer_step`." }
// options.rule = { type = "str", default = "amsgrad", doc = "The rule, by name." }
// params.has_skip = { type = "u32", value = "1 if skip else 0" }
// uses = ["exponentials"]
// bytes = "2 * (count.nbytes + settings.nbytes)"
// operations = "64"
// grid = "1"
// ///

// One invocation.
alias V = f32;
alias U = u32;
alias I = i32;
//% if RULE != "adagrad"
${exponentials.accurate_expm1()}
//% endif

fn place(i: u32) -> u32 { return p.settings_off + i * p.settings_ws; }
fn setting(i: u32) -> f32 { return settings_mem[place(i)]; }

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) wg: vec3<u32>) {
  if (group_id(wg) >= p.groups) { return; }
  if (p.has_skip == 1u) {
    if (skip_load(p.skip_off) != 0u) { return; }
  }
  let t = count_mem[p.count_off] + 1;
  count_mem[p.count_off] = t;
//% if RULE == "adagrad"
  settings_store(place(11u), 1.0f / (1.0f + f32(t - 1) * setting(9u)));
//% else
  // 1 - beta^t without cancellation.
//% if RULE == "amsgrad"
  settings_store(place(11u), -1.0f / accurate_expm1(f32(t) * setting(2u)));
//% else
  // mu is beta1 - fade / 2, and 1 - mu is computed without cancellation, too.
  let slope = -0.040821996f * setting(9u);  // ln(0.96)
  let fade = 0.5f * setting(0u) * (1.0f + accurate_expm1(f32(t) * slope));
  let next_fade = 0.5f * setting(0u) * (1.0f + accurate_expm1((f32(t) + 1.0f) * slope));
  let product = setting(14u) * (setting(0u) - fade);
  let next = setting(0u) - next_fade;
  settings_store(place(11u), (setting(1u) + fade) / (1.0f - product));
  settings_store(place(13u), next / (1.0f - product * next));
  settings_store(place(14u), product);
//% endif
  settings_store(place(12u), inverseSqrt(-accurate_expm1(f32(t) * setting(5u))));
//% endif
}
