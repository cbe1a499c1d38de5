// Compares the elements of an index by the places that they name: tests if two elements name the
// same place, and finds the slot of a hash table at which the search for a place begins. `inner`
// and `length` have the same meaning as in last_pairs.

//% import "kernels/lib/indices.wgsl" as indices

//% macro functions()
${indices.functions()}
// The part of the position that all elements along the axis share.
fn line_of(e: u32) -> u32 { return e / (p.inner * p.length) * p.inner + e % p.inner; }
fn one_place(a: u32, b: u32) -> bool {
  return (line_of(a) == line_of(b)) & all(index_at(index_index(a)) == index_at(index_index(b)));
}
fn first_slot(e: u32) -> u32 {
  var h = index_at(index_index(e)).x * 0x9e3779b1u + line_of(e) * 0x85ebca77u;
  h = (h ^ (h >> 15u)) * 0x2c1b3c6du;
  return (h ^ (h >> 12u)) % p.slots;
}
//% endmacro
