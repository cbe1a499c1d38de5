// expect: lint:PK010 5 naga refuses pointers to storage memory as parameters
// expect: naga 5 which can't be passed into functions
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;

fn first(values: ptr<storage, array<f32>, read_write>) -> f32 { return (*values)[0]; }

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    dst[lid.x] = first(&dst);
}
