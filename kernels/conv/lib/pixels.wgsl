// Pixels of an output image as digits (x, y, image), counted through all images.

//% macro functions()
fn pixel(k: u32) -> vec3<u32> {
  let row = k / p.out_w;
  let image = row / p.out_h;
  return vec3<u32>(k - row * p.out_w, row - image * p.out_h, image);
}

// The pixel that lies `step_x`, `step_y`, `step_n` ahead.
fn next_pixel(d: vec3<u32>) -> vec3<u32> {
  let x = d.x + p.step_x;
  let over = x >= p.out_w;
  let y = d.y + p.step_y + select(0u, 1u, over);
  let more = y >= p.out_h;
  return vec3<u32>(
    x - select(0u, p.out_w, over), y - select(0u, p.out_h, more), d.z + p.step_n + select(0u, 1u, more),
  );
}
//% endmacro
