// expect: lint:PK008 11 workgroup memory tile is read before it is written
// expect: lint:PK008 13 workgroup memory hits is read before it is written
// expect: lint:PK008 15 workgroup memory never is read, but never written
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
var<workgroup> tile: array<f32, 64>;
var<workgroup> hits: atomic<u32>;
var<workgroup> never: f32;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) li: u32) {
    tile[li] += dst[li];
    workgroupBarrier();
    atomicAdd(&hits, 1u);
    workgroupBarrier();
    if (li == 0u) { dst[0] = tile[1] + f32(atomicLoad(&hits)) + never; }
    tile[li] = 0.0;
    atomicStore(&hits, 0u);
}
