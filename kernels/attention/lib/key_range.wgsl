// The keys that count lie in a band around each query. With LENGTHS, the device gives the number
// of keys of each batch, and the band moves with it.

//% set COUNT, LOW, HIGH = ("key_count", "band_low", "band_high") if LENGTHS else ("p.keys", "p.band_low", "p.band_high")
//% set FIRST, LAST = ("first_key", "last_key") if LENGTHS else ("p.first_key", "p.last_key")
// The last parameters of functions that need the range, and the arguments that callers pass for
// them.
//% set PARAMETERS = ", key_count: u32, band_low: i32, band_high: i32" if LENGTHS else ""
//% set ARGUMENTS = ", key_count, band_low, band_high" if LENGTHS else ""

// Declares the number of keys and the band of `batch`, which is the same for the whole workgroup.
//% macro count()
//% if LENGTHS
  let key_count = u32(clamp(lengths_load(p.lengths_off + batch * p.lengths_bs), 0, i32(p.keys)));
//% endif
//% endmacro

//% macro count_and_band()
//% if LENGTHS
  ${count()}
  let fewer = i32(p.keys - key_count);
  let band_low = p.band_low - fewer;
  let band_high = min(p.band_high - fewer, p.band_top);
//% endif
//% endmacro

// The first and the last key that any query may see.
//% macro ends()
//% if LENGTHS
  ${count_and_band()}
  let first_key = u32(clamp(band_low, 0, i32(key_count)));
  let last_key = u32(clamp(i32(p.queries) + band_high, i32(first_key), i32(key_count)));
//% endif
//% endmacro

// If the split (from `key0` on) has no keys, the workgroup stores an lse of -inf in `sums` and
// ends; attention_combine reads nothing else of this part.
//% macro leave_without_keys(sums, rows_held)
//% if LENGTHS
  if (key0 >= last_key) {
    if ((li < ${rows_held}u) & (row0 + li < rows)) {
      ${sums}_store(p.${sums}_off + (split * p.matrices + matrix) * rows + row0 + li, bitcast<f32>(p.minus_inf));
    }
    return;
  }
//% endif
//% endmacro
