//! Python's operators, built-in functions and methods, as far as plans use them.

use std::rc::Rc;
use std::sync::Arc;

use crate::contract::DTYPES;
use crate::eval::{from_json, Interp};
use crate::layout::{self, Ints, Space, View};
use crate::value::{by_name, fail, repr, same, show, Dict, Found, Named, Object, Value};

// -- operators ------------------------------------------------------------------------------------

pub fn binary(op: &str, a: &Value, b: &Value) -> Found<Value> {
    match (op, a, b) {
        ("add", Value::Text(x), Value::Text(y)) => return Ok(Value::text(format!("{x}{y}"))),
        ("add", Value::List(_), _) | ("add", Value::Tuple(_), _) => return joined(a, b),
        ("add", Value::Object(_), _) => return joined(a, b),
        ("mul", _, Value::List(_) | Value::Tuple(_)) => return times(b, a),
        ("mul", Value::List(_) | Value::Tuple(_), _) => return times(a, b),
        ("sub" | "and_" | "or_", Value::Set(x), _) => {
            let has = |v: &Value| has(b, v);
            let mut made = vec![];
            for (k, _) in &x.borrow().pairs {
                if op == "or_" || has(k)? == (op == "and_") {
                    made.push(k.clone());
                }
            }
            if op == "or_" {
                made.extend(pairs(b)?.into_iter().map(|(k, _)| k));
            }
            return Ok(Value::set(made));
        }
        ("or_", Value::Dict(_), _) => {
            let mut made = pairs(a)?;
            made.extend(pairs(b)?);
            return Ok(Value::dict(made));
        }
        ("and_", Value::Bool(x), Value::Bool(y)) => return Ok(Value::Bool(x & y)),
        ("or_", Value::Bool(x), Value::Bool(y)) => return Ok(Value::Bool(x | y)),
        _ => {}
    }
    if op == "div" {
        let by = b.float()?;
        return if by == 0.0 { zero() } else { Ok(Value::Float(a.float()? / by)) };
    }
    if matches!(a, Value::Float(_)) || matches!(b, Value::Float(_)) {
        return floats(op, a.float()?, b.float()?);
    }
    whole(op, a.int()?, b.int()?)
}

fn zero() -> Found<Value> {
    fail("division by zero")
}

fn floats(op: &str, x: f64, y: f64) -> Found<Value> {
    Ok(Value::Float(match op {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "pow" => x.powf(y),
        "floordiv" | "modulo" if y == 0.0 => return zero(),
        "floordiv" => (x / y).floor(),
        "modulo" => x - y * (x / y).floor(),
        _ => return fail(format!("{op} takes whole numbers")),
    }))
}

fn whole(op: &str, x: i128, y: i128) -> Found<Value> {
    let made = match op {
        "add" => x.checked_add(y),
        "sub" => x.checked_sub(y),
        "mul" => x.checked_mul(y),
        "floordiv" | "modulo" if y == 0 => return zero(),
        "floordiv" => Some(floor_div(x, y)),
        "modulo" => Some(x - y * floor_div(x, y)),
        "pow" if y < 0 => return Ok(Value::Float((x as f64).powi(y as i32))),
        "pow" => x.checked_pow(y as u32),
        "shl" => u32::try_from(y).ok().filter(|n| *n < 120).map(|n| x << n),
        "shr" => Some(if y > 126 { if x < 0 { -1 } else { 0 } } else { x >> y }),
        "and_" => Some(x & y),
        "or_" => Some(x | y),
        _ => None,
    };
    match made {
        Some(n) => Ok(Value::Int(n)),
        None => fail(format!("{op} of {x} and {y} is too large")),
    }
}

fn floor_div(x: i128, y: i128) -> i128 {
    let q = x / y;
    if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q }
}

fn joined(a: &Value, b: &Value) -> Found<Value> {
    let (Some(mut x), Some(y)) = (a.parts(), b.parts()) else {
        return fail("only sequences are joined");
    };
    x.extend(y);
    Ok(if matches!(a, Value::List(_)) { Value::list(x) } else { Value::tuple(x) })
}

fn times(of: &Value, n: &Value) -> Found<Value> {
    let (parts, n) = (of.parts().unwrap_or_default(), n.int()?.max(0) as usize);
    let made: Vec<Value> = (0..n).flat_map(|_| parts.clone()).collect();
    Ok(if matches!(of, Value::List(_)) { Value::list(made) } else { Value::tuple(made) })
}

pub fn less(a: &Value, b: &Value) -> Found<bool> {
    if let (Value::Text(x), Value::Text(y)) = (a, b) {
        return Ok(x < y);
    }
    if let (Value::Set(x), Value::Set(y)) = (a, b) {
        let (x, y) = (x.borrow(), y.borrow());
        let inside = x.pairs.iter().all(|(k, _)| y.get(k).is_some());
        return Ok(inside && x.pairs.len() < y.pairs.len());
    }
    if let (Some(x), Some(y)) = (a.parts(), b.parts()) {
        for (p, q) in x.iter().zip(&y) {
            if !same(p, q) {
                return less(p, q);
            }
        }
        return Ok(x.len() < y.len());
    }
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => Ok(x < y),
        _ => Ok(a.float()? < b.float()?),
    }
}

pub fn has(of: &Value, v: &Value) -> Found<bool> {
    Ok(match of {
        Value::Dict(d) | Value::Set(d) => d.borrow().get(v).is_some(),
        Value::Text(t) => t.contains(&*v.as_text()?),
        other => match other.parts() {
            Some(parts) => parts.iter().any(|p| same(p, v)),
            None => return fail(format!("{} has no elements", show(other))),
        },
    })
}

pub fn at(of: &Value, index: &Value) -> Found<Value> {
    if let Value::Dict(d) = of {
        return match d.borrow().get(index) {
            Some(value) => Ok(value.clone()),
            None => fail(format!("there is no key {}", repr(index))),
        };
    }
    let parts = sequence(of)?;
    let i = index.int()?;
    let n = parts.len() as i128;
    if i >= n || i < -n {
        return fail(format!("there is no element {i}"));
    }
    Ok(parts[(if i < 0 { i + n } else { i }) as usize].clone())
}

/// The elements of a list, a tuple or a text.
fn sequence(of: &Value) -> Found<Vec<Value>> {
    if let Value::Text(t) = of {
        return Ok(t.chars().map(|c| Value::text(c.to_string())).collect());
    }
    match of.parts() {
        Some(parts) => Ok(parts),
        None => fail(format!("{} is no sequence", show(of))),
    }
}

pub fn cut(of: &Value, ends: [Option<i128>; 3]) -> Found<Value> {
    let parts = sequence(of)?;
    let (n, step) = (parts.len() as i128, ends[2].unwrap_or(1));
    if step == 0 {
        return fail("a slice has a step of 0");
    }
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let within = |i: i128| (if i < 0 { i + n } else { i }).clamp(low, high.max(low));
    let mut i = ends[0].map_or(if step > 0 { low } else { high }, within);
    let end = ends[1].map_or(if step > 0 { high } else { low }, within);
    let mut made = vec![];
    while if step > 0 { i < end } else { i > end } {
        made.push(parts[i as usize].clone());
        i += step;
    }
    Ok(match of {
        Value::Text(_) => Value::text(made.iter().map(show).collect::<String>()),
        Value::List(_) => Value::list(made),
        _ => Value::tuple(made),
    })
}

pub fn put(of: &Value, index: &Value, value: Value) -> Found<()> {
    match of {
        Value::Dict(d) => d.borrow_mut().put(index.clone(), value),
        Value::List(l) => {
            let n = l.borrow().len() as i128;
            let i = index.int()?;
            let i = if i < 0 { i + n } else { i };
            if i < 0 || i >= n {
                return fail(format!("there is no element {i}"));
            }
            l.borrow_mut()[i as usize] = value;
        }
        other => return fail(format!("{} cannot be changed", show(other))),
    }
    Ok(())
}

pub fn pairs(of: &Value) -> Found<Vec<(Value, Value)>> {
    match of {
        Value::Dict(d) | Value::Set(d) => Ok(d.borrow().pairs.clone()),
        other => match other.parts() {
            Some(parts) => parts
                .iter()
                .map(|p| match p.parts().as_deref() {
                    Some([k, v]) => Ok((k.clone(), v.clone())),
                    _ => fail("a pair is wanted"),
                })
                .collect(),
            None => fail(format!("{} is no dict", show(other))),
        },
    }
}

// -- names of the runtime -------------------------------------------------------------------------

pub fn runtime(name: &Arc<str>) -> Value {
    match &**name {
        "DTYPES" => Value::dict(DTYPES.iter().map(|d| (Value::text(d.name), Value::DType(d))).collect()),
        _ => Value::Runtime(name.clone()),
    }
}

fn ints(of: &Value) -> Found<Ints> {
    sequence(of)?.iter().map(Value::int).collect()
}

fn texts(interp: &Interp, of: &Value) -> Found<Vec<String>> {
    interp.list(of)?.iter().map(|t| Ok(t.as_text()?.to_string())).collect()
}

fn views(of: &Value) -> Found<layout::Views> {
    let given = pairs(of)?.into_iter().filter(|(_, v)| !v.is_none());
    given.map(|(k, v)| Ok((k.as_text()?.to_string(), (*v.as_view()?).clone()))).collect()
}

/// A positional argument, or one by name, or None.
fn arg(args: &[Value], named: &Named<Value>, i: usize, name: &str) -> Value {
    args.get(i).or_else(|| by_name(named, name)).cloned().unwrap_or(Value::None)
}

pub fn call(
    interp: &Interp,
    name: &str,
    mut args: Vec<Value>,
    named: Named<Value>,
) -> Found<Value> {
    let one = || arg(&args, &named, 0, "");
    Ok(match name {
        "abs" => match one() {
            Value::Float(x) => Value::Float(x.abs()),
            other => Value::Int(other.int()?.abs()),
        },
        "all" | "any" => {
            let wanted = name == "any";
            let mut found = !wanted;
            interp.each(&one(), &mut |v| {
                if interp.truth(&v)? == wanted {
                    found = wanted;
                }
                Ok(found != wanted)
            })?;
            Value::Bool(found)
        }
        "bool" => Value::Bool(interp.truth(&one())?),
        "cdiv" => {
            let (a, b) = (args[0].int()?, args[1].int()?);
            if b == 0 {
                return zero();
            }
            Value::Int(-floor_div(-a, b))
        }
        "dict" => {
            let mut made = if args.is_empty() { vec![] } else { dict_pairs(interp, &args[0])? };
            made.extend(named.into_iter().map(|(k, v)| (Value::Text(k), v)));
            Value::dict(made)
        }
        "divmod" => {
            let (a, b) = (&args[0], &args[1]);
            Value::tuple(vec![binary("floordiv", a, b)?, binary("modulo", a, b)?])
        }
        "dtype" => match one() {
            Value::View(v) => Value::text(v.dtype.short),
            _ => Value::text(""),
        },
        "enumerate" => {
            let start = arg(&args, &named, 1, "start");
            let start = if start.is_none() { 0 } else { start.int()? };
            let all = interp.list(&one())?.into_iter().enumerate();
            let pair = |(i, v)| Value::tuple(vec![Value::Int(i as i128 + start), v]);
            Value::list(all.map(pair).collect())
        }
        "filter" => {
            let mut made = vec![];
            for v in interp.list(&args[1])? {
                let kept = match &args[0] {
                    Value::None => v.clone(),
                    f => interp.call(f, vec![v.clone()], vec![])?,
                };
                if interp.truth(&kept)? {
                    made.push(v);
                }
            }
            Value::list(made)
        }
        "float" => Value::Float(match one() {
            Value::Text(t) => t.parse().unwrap_or(f64::NAN),
            other => other.float()?,
        }),
        "id" | "iter" => one(),
        "int" => match one() {
            Value::Float(x) => Value::Int(x.trunc() as i128),
            Value::Text(t) => match t.parse() {
                Ok(n) => Value::Int(n),
                Err(_) => return fail(format!("{t} is no whole number")),
            },
            other => Value::Int(other.int()?),
        },
        "isinstance" => {
            let kinds = args[1].parts().unwrap_or_else(|| vec![args[1].clone()]);
            Value::Bool(kinds.iter().any(|k| is_instance(&args[0], k)))
        }
        "len" => Value::Int(match one() {
            Value::Dict(d) | Value::Set(d) => d.borrow().pairs.len(),
            other => sequence(&other)?.len(),
        } as i128),
        "list" | "sorted" | "reversed" | "tuple" | "set" | "frozenset" => {
            let mut all = if args.is_empty() { vec![] } else { interp.list(&args[0])? };
            match name {
                "sorted" => sort(interp, &mut all, &named)?,
                "reversed" => all.reverse(),
                _ => {}
            }
            match name {
                "tuple" => Value::tuple(all),
                "set" | "frozenset" => Value::set(all),
                _ => Value::list(all),
            }
        }
        "map" => {
            let f = args.remove(0);
            let rows = zip(interp, &args, false)?;
            let made = rows.into_iter().map(|row| interp.call(&f, row, vec![]));
            Value::list(made.collect::<Found<Vec<Value>>>()?)
        }
        "max" | "min" => extreme(interp, name == "max", args, named)?,
        "next" => {
            let mut found = None;
            interp.each(&args[0], &mut |v| {
                found = Some(v);
                Ok(false)
            })?;
            match found.or_else(|| args.get(1).cloned()) {
                Some(v) => v,
                None => return fail("nothing is left"),
            }
        }
        "range" => {
            let n = args.iter().map(Value::int).collect::<Found<Ints>>()?;
            let (from, to) = if n.len() > 1 { (n[0], n[1]) } else { (0, n[0]) };
            let by = n.get(2).copied().unwrap_or(1);
            let count = if by == 0 { 0 } else { (-floor_div(from - to, by)).max(0) };
            Value::list((0..count).map(|i| Value::Int(from + i * by)).collect())
        }
        "repr" => Value::text(repr(&one())),
        "round" => match one() {
            Value::Float(x) => Value::Int(x.round_ties_even() as i128),
            other => other,
        },
        "str" => Value::text(show(&one())),
        "sum" => {
            let mut total = args.get(1).cloned().unwrap_or(Value::Int(0));
            for v in interp.list(&args[0])? {
                total = binary("add", &total, &v)?;
            }
            total
        }
        "zip" => {
            let strict = by_name(&named, "strict").is_some_and(|s| same(s, &Value::Bool(true)));
            let rows = zip(interp, &args, strict)?;
            Value::list(rows.into_iter().map(Value::tuple).collect())
        }
        // -- what plans know of tensors
        "Failure" => one(),
        "Watch" | "forced" => Value::None,
        "View" => {
            let padded = arg(&args, &named, 5, "padded");
            Value::view(View {
                slot: arg(&args, &named, 0, "slot").int()?,
                dtype: as_dtype(&arg(&args, &named, 1, "dtype"))?,
                shape: ints(&arg(&args, &named, 2, "shape"))?,
                strides: ints(&arg(&args, &named, 3, "strides"))?,
                offset: arg(&args, &named, 4, "offset").int()?,
                padded: padded.is_none() || interp.truth(&padded)?,
            })
        }
        "DType" => {
            let parts: Vec<Value> = (0..4)
                .map(|i| arg(&args, &named, i, ["name", "short", "itemsize", "kind"][i]))
                .collect();
            own_dtype(&parts)?
        }
        "Nd" | "Rows" | "Tiles" => {
            let repeats = arg(&args, &named, 2, "repeats");
            let repeats = if repeats.is_none() { vec![] } else { texts(interp, &repeats)? };
            let made = Space::new(name, &ints(&args[0])?, views(&args[1])?, &repeats)?;
            Value::Space(Rc::new(made.into()))
        }
        "merge_axes" => {
            let strides = interp.list(&args[1])?.iter().map(ints).collect::<Found<Vec<Ints>>>()?;
            let (dims, steps) = layout::merge_axes(&ints(&args[0])?, &strides);
            let steps = steps.iter().map(|s| Value::ints(s)).collect();
            Value::tuple(vec![Value::ints(&dims), Value::list(steps)])
        }
        "repeated" => {
            let names = texts(interp, &args[3])?;
            let lead = args[1].int()? as usize;
            let (full, over) = layout::repeated(&ints(&args[0])?, lead, views(&args[2])?, &names)?;
            let over = over.into_iter().map(|(k, v)| (Value::text(k), Value::view(v)));
            Value::tuple(vec![Value::ints(&full), Value::dict(over.collect())])
        }
        "contiguous_strides" => {
            Value::ints(&layout::contiguous_strides(&ints(&args[0])?, args[1].int()?))
        }
        "extent" => {
            let (lo, hi) = layout::extent(&ints(&args[0])?, &ints(&args[1])?, args[2].int()?);
            Value::ints(&[lo, hi])
        }
        other => return fail(format!("plans cannot call {other} here")),
    })
}

fn dict_pairs(interp: &Interp, of: &Value) -> Found<Vec<(Value, Value)>> {
    match of {
        Value::Generator(_) => pairs(&Value::list(interp.list(of)?)),
        other => pairs(other),
    }
}

fn as_dtype(of: &Value) -> Found<&'static layout::DType> {
    match of {
        Value::DType(d) => Ok(d),
        other => fail(format!("{} is no dtype", show(other))),
    }
}

/// A dtype of a plan's own, as the words that a tensor is read as. There are a few of them in all.
fn own_dtype(parts: &[Value]) -> Found<Value> {
    use std::sync::Mutex;
    static MADE: Mutex<Vec<&'static layout::DType>> = Mutex::new(Vec::new());
    let (name, short) = (parts[0].as_text()?, parts[1].as_text()?);
    let (itemsize, kind) = (parts[2].int()?, parts[3].as_text()?);
    let mut made = MADE.lock().unwrap_or_else(|e| e.into_inner());
    let equal = |d: &&&layout::DType| {
        (d.name, d.short, d.itemsize, d.kind) == (&*name, &*short, itemsize, &*kind)
    };
    if let Some(found) = made.iter().find(equal) {
        return Ok(Value::DType(found));
    }
    let forever = |t: &str| -> &'static str { Box::leak(t.to_string().into_boxed_str()) };
    let dtype = layout::DType {
        name: forever(&name),
        short: forever(&short),
        itemsize,
        kind: forever(&kind),
    };
    made.push(Box::leak(Box::new(dtype)));
    Ok(Value::DType(made[made.len() - 1]))
}

fn is_instance(of: &Value, kind: &Value) -> bool {
    match (of, kind) {
        (Value::Object(o), Value::Class(class)) => Rc::ptr_eq(&o.class, class),
        (_, Value::Runtime(name)) => match &**name {
            "str" => matches!(of, Value::Text(_)),
            "bool" => matches!(of, Value::Bool(_)),
            "int" => matches!(of, Value::Int(_) | Value::Bool(_)),
            "float" => matches!(of, Value::Float(_)),
            "tuple" | "list" => of.parts().is_some(),
            "dict" => matches!(of, Value::Dict(_)),
            "View" => matches!(of, Value::View(_)),
            _ => false,
        },
        _ => false,
    }
}

fn zip(interp: &Interp, args: &[Value], strict: bool) -> Found<Vec<Vec<Value>>> {
    let all = args.iter().map(|a| interp.list(a)).collect::<Found<Vec<Vec<Value>>>>()?;
    let n = all.iter().map(Vec::len).min().unwrap_or(0);
    if strict && all.iter().any(|a| a.len() != n) {
        return fail("zip: lengths differ");
    }
    Ok((0..n).map(|i| all.iter().map(|a| a[i].clone()).collect()).collect())
}

/// A stable sort, in both directions, by `key`.
fn sort(interp: &Interp, all: &mut Vec<Value>, named: &Named<Value>) -> Found<()> {
    let reverse = by_name(named, "reverse").is_some_and(|r| same(r, &Value::Bool(true)));
    let mut made: Vec<(Value, Value)> = vec![];
    for v in all.drain(..) {
        let key = match by_name(named, "key") {
            Some(f) => interp.call(f, vec![v.clone()], vec![])?,
            None => v.clone(),
        };
        let mut i = made.len();
        while i > 0 {
            let (a, b) = (&key, &made[i - 1].0);
            if !(if reverse { less(b, a)? } else { less(a, b)? }) {
                break;
            }
            i -= 1;
        }
        made.insert(i, (key, v));
    }
    all.extend(made.into_iter().map(|(_, v)| v));
    Ok(())
}

fn extreme(
    interp: &Interp,
    largest: bool,
    args: Vec<Value>,
    named: Named<Value>,
) -> Found<Value> {
    let all = if args.len() == 1 { interp.list(&args[0])? } else { args };
    let mut best: Option<(Value, Value)> = None;
    for v in all {
        let key = match by_name(&named, "key") {
            Some(f) => interp.call(f, vec![v.clone()], vec![])?,
            None => v.clone(),
        };
        let better = match &best {
            None => true,
            Some((top, _)) if largest => less(top, &key)?,
            Some((top, _)) => less(&key, top)?,
        };
        if better {
            best = Some((key, v));
        }
    }
    match best.map(|(_, v)| v).or_else(|| by_name(&named, "default").cloned()) {
        Some(v) => Ok(v),
        None => fail("the largest or smallest of nothing"),
    }
}

// -- methods --------------------------------------------------------------------------------------

pub fn method(
    interp: &Interp,
    of: &Value,
    name: &Arc<str>,
    args: Vec<Value>,
    named: Named<Value>,
) -> Found<Value> {
    match of {
        Value::Runtime(module) if matches!(&**module, "math" | "operator" | "itertools" | "dataclasses") => {
            return in_module(interp, module, name, args, named);
        }
        Value::View(v) => return of_view(interp, v, name, &args, &named),
        Value::Space(s) => {
            let n = || arg(&args, &named, 0, "n").int();
            let text = || arg(&args, &named, 0, "name").as_text();
            return Ok(match &**name {
                "params" => Value::ints(&s.borrow().params()),
                "steps" => {
                    let vec = arg(&args, &named, 1, "vec");
                    let vec = if vec.is_none() { 1 } else { vec.int()? };
                    Value::ints(&s.borrow().steps(&text()?, vec)?)
                }
                "repeats" => Value::Bool(s.borrow().repeats(&text()?)?),
                "vec" => {
                    let may = arg(&args, &named, 1, "may_repeat");
                    let may = if may.is_none() { vec![] } else { texts(interp, &may)? };
                    Value::Bool(s.borrow().vec(n()?, &may)?)
                }
                "in_vectors" => {
                    s.borrow_mut().in_vectors(n()?);
                    of.clone()
                }
                "columns_apart" => Value::Bool(s.borrow().columns_apart(&text()?)?),
                other => return fail(format!("an index space has no {other}")),
            });
        }
        Value::Scratch(sizes) => {
            let reserve = |nbytes: i128| {
                sizes.borrow_mut().push(nbytes.max(4));
                !(sizes.borrow().len() as i128 - 1)
            };
            return Ok(match &**name {
                "reserve" => Value::Int(reserve(arg(&args, &named, 0, "nbytes").int()?)),
                "empty" => {
                    let shape = ints(&arg(&args, &named, 0, "shape"))?;
                    let word = arg(&args, &named, 1, "name").as_text()?;
                    let Some(dtype) = layout::dtype(&word) else {
                        return fail(format!("there is no dtype {word}"));
                    };
                    let strides = layout::contiguous_strides(&shape, dtype.itemsize);
                    let slot = reserve(layout::product(&shape) * dtype.itemsize);
                    Value::view(View { slot, dtype, shape, strides, offset: 0, padded: true })
                }
                other => return fail(format!("scratch has no {other}")),
            });
        }
        Value::Dict(d) | Value::Set(d) => return of_dict(interp, of, d, name, args, named),
        Value::Text(t) => return of_text(interp, t, name, &args),
        Value::Int(n) => match &**name {
            "bit_length" => return Ok(Value::Int((128 - n.abs().leading_zeros()).into())),
            "is_integer" => return Ok(Value::Bool(true)),
            _ => {}
        },
        Value::Float(x) if &**name == "is_integer" => return Ok(Value::Bool(x.fract() == 0.0)),
        Value::Object(o) => match &**name {
            "_replace" => return replace(of, named),
            "_asdict" => {
                let fields = o.class.fields.iter().map(|f| Value::Text(f.clone()));
                let values = o.fields.borrow().clone();
                return Ok(Value::dict(fields.zip(values).collect()));
            }
            _ => {}
        },
        _ => {}
    }
    of_sequence(interp, of, name, args, named)
}

fn of_sequence(
    interp: &Interp,
    of: &Value,
    name: &str,
    args: Vec<Value>,
    named: Named<Value>,
) -> Found<Value> {
    let Some(parts) = of.parts() else {
        return fail(format!("{} has no {name}", show(of)));
    };
    match (name, of) {
        ("index", _) => match parts.iter().position(|p| same(p, &args[0])) {
            Some(i) => Ok(Value::Int(i as i128)),
            None => fail("not in the list"),
        },
        ("count", _) => {
            let n = parts.iter().filter(|p| same(p, &args[0])).count();
            Ok(Value::Int(n as i128))
        }
        (_, Value::List(list)) => {
            match name {
                "append" => list.borrow_mut().push(args[0].clone()),
                "extend" => {
                    let more = interp.list(&args[0])?;
                    list.borrow_mut().extend(more);
                }
                "insert" => {
                    let at = (args[0].int()?.max(0) as usize).min(parts.len());
                    list.borrow_mut().insert(at, args[1].clone());
                }
                "pop" => {
                    let i = args.first().map_or(Ok(-1), Value::int)?;
                    let i = if i < 0 { i + parts.len() as i128 } else { i };
                    if i < 0 || i >= parts.len() as i128 {
                        return fail("pop from an empty list");
                    }
                    return Ok(list.borrow_mut().remove(i as usize));
                }
                "reverse" => list.borrow_mut().reverse(),
                "sort" => {
                    let mut all = parts;
                    sort(interp, &mut all, &named)?;
                    *list.borrow_mut() = all;
                }
                other => return fail(format!("a list has no {other}")),
            }
            Ok(Value::None)
        }
        _ => fail(format!("a tuple has no {name}")),
    }
}

fn of_dict(
    interp: &Interp,
    of: &Value,
    d: &Rc<std::cell::RefCell<Dict>>,
    name: &str,
    args: Vec<Value>,
    named: Named<Value>,
) -> Found<Value> {
    let all = d.borrow().pairs.clone();
    Ok(match name {
        "items" => Value::list(all.into_iter().map(|(k, v)| Value::tuple(vec![k, v])).collect()),
        "keys" => Value::list(all.into_iter().map(|(k, _)| k).collect()),
        "values" => Value::list(all.into_iter().map(|(_, v)| v).collect()),
        "get" => {
            let found = d.borrow().get(&args[0]).cloned();
            found.unwrap_or_else(|| args.get(1).cloned().unwrap_or(Value::None))
        }
        "setdefault" => {
            if d.borrow().get(&args[0]).is_none() {
                d.borrow_mut().put(args[0].clone(), args[1].clone());
            }
            at(&Value::Dict(d.clone()), &args[0])?
        }
        "update" => {
            for (k, v) in dict_pairs(interp, &args[0])? {
                d.borrow_mut().put(k, v);
            }
            Value::None
        }
        "add" => {
            d.borrow_mut().put(args[0].clone(), args[0].clone());
            Value::None
        }
        "pop" => {
            let at = all.iter().position(|(k, _)| same(k, &args[0]));
            match (at, args.get(1)) {
                (Some(i), _) => d.borrow_mut().pairs.remove(i).1,
                (None, Some(other)) => other.clone(),
                _ => return fail(format!("there is no key {}", repr(&args[0]))),
            }
        }
        other => {
            let f = attribute(of, &Arc::from(other))?;
            interp.call(&f, args, named)?
        }
    })
}

fn of_text(interp: &Interp, t: &str, name: &str, args: &[Value]) -> Found<Value> {
    let word = || args.first().cloned().unwrap_or(Value::text("")).as_text();
    Ok(match name {
        "join" => {
            let parts = interp.list(&args[0])?;
            Value::text(parts.iter().map(show).collect::<Vec<_>>().join(t))
        }
        "startswith" => Value::Bool(t.starts_with(&*word()?)),
        "endswith" => Value::Bool(t.ends_with(&*word()?)),
        "split" => Value::list(t.split(&*word()?).map(Value::text).collect()),
        "find" => Value::Int(t.find(&*word()?).map_or(-1, |i| i as i128)),
        "index" => match t.find(&*word()?) {
            Some(i) => Value::Int(i as i128),
            None => return fail("not in the text"),
        },
        "replace" => Value::text(t.replace(&*word()?, &args[1].as_text()?)),
        "strip" => Value::text(t.trim()),
        "upper" => Value::text(t.to_uppercase()),
        "lower" => Value::text(t.to_lowercase()),
        other => return fail(format!("a text has no {other}")),
    })
}

fn of_view(
    interp: &Interp,
    v: &View,
    name: &str,
    args: &[Value],
    named: &Named<Value>,
) -> Found<Value> {
    Ok(match name {
        "with_layout" => {
            let shape = ints(&arg(args, named, 0, "shape"))?;
            let strides = ints(&arg(args, named, 1, "strides"))?;
            let dtype = arg(args, named, 2, "dtype");
            let dtype = if dtype.is_none() { None } else { Some(as_dtype(&dtype)?) };
            Value::view(v.with_layout(shape, strides, dtype))
        }
        "as_rank" => Value::view(v.as_rank(arg(args, named, 0, "ndim").int()?.max(0) as usize)),
        "broadcast_to" => Value::view(v.broadcast_to(&ints(&arg(args, named, 0, "shape"))?)),
        "aligned" => {
            let axes = Value::list(interp.list(&arg(args, named, 1, "axes"))?);
            Value::Bool(v.aligned(arg(args, named, 0, "nbytes").int()?, ints(&axes)?))
        }
        "vectorizable" => {
            let axis = arg(args, named, 1, "axis");
            let axis = if axis.is_none() { -1 } else { axis.int()? };
            Value::Bool(v.vectorizable(arg(args, named, 0, "n").int()?, axis))
        }
        other => return fail(format!("a view has no {other}")),
    })
}

fn in_module(
    interp: &Interp,
    module: &str,
    name: &str,
    args: Vec<Value>,
    named: Named<Value>,
) -> Found<Value> {
    let float = |i: usize| args[i].float();
    Ok(match (module, name) {
        ("math", "prod") => {
            let mut total = Value::Int(1);
            for v in interp.list(&args[0])? {
                total = binary("mul", &total, &v)?;
            }
            total
        }
        ("math", "ceil") => Value::Int(float(0)?.ceil() as i128),
        ("math", "floor") => Value::Int(float(0)?.floor() as i128),
        ("math", "sqrt") => Value::Float(float(0)?.sqrt()),
        ("math", "log2") => Value::Float(float(0)?.log2()),
        ("math", "isqrt") => {
            let n = args[0].int()?;
            let mut root = (n as f64).sqrt() as i128;
            while root * root > n {
                root -= 1;
            }
            while (root + 1) * (root + 1) <= n {
                root += 1;
            }
            Value::Int(root)
        }
        ("math", "gcd" | "lcm") => {
            let mut total = if name == "gcd" { 0 } else { 1 };
            for v in &args {
                let n = v.int()?.abs();
                total = match name {
                    "gcd" => gcd(total, n),
                    _ if total == 0 || n == 0 => 0,
                    _ => total / gcd(total, n) * n,
                };
            }
            Value::Int(total)
        }
        ("operator", "index") => Value::Int(args[0].int()?),
        ("itertools", "chain") => {
            let mut made = vec![];
            for a in &args {
                made.extend(interp.list(a)?);
            }
            Value::list(made)
        }
        ("itertools", "pairwise") => {
            let all = interp.list(&args[0])?;
            Value::list(all.windows(2).map(|pair| Value::tuple(pair.to_vec())).collect())
        }
        ("itertools", "product") => {
            let mut rows: Vec<Vec<Value>> = vec![vec![]];
            for a in &args {
                let all = interp.list(a)?;
                rows = rows
                    .into_iter()
                    .flat_map(|row| {
                        all.iter().map(move |v| [row.clone(), vec![v.clone()]].concat())
                    })
                    .collect();
            }
            Value::list(rows.into_iter().map(Value::tuple).collect())
        }
        ("dataclasses", "replace") => replace(&args[0], named)?,
        _ => return fail(format!("plans cannot call {module}.{name} here")),
    })
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn replace(of: &Value, named: Named<Value>) -> Found<Value> {
    match of {
        Value::Object(o) => {
            let mut fields = o.fields.borrow().clone();
            for (name, value) in named {
                match o.class.fields.iter().position(|f| *f == name) {
                    Some(i) => fields[i] = value,
                    None => return fail(format!("{} has no {name}", o.class.name)),
                }
            }
            let fields = fields.into();
            Ok(Value::Object(Rc::new(Object { class: o.class.clone(), fields })))
        }
        Value::View(v) => {
            let mut made = (**v).clone();
            for (name, value) in named {
                match &*name {
                    "slot" => made.slot = value.int()?,
                    "dtype" => made.dtype = as_dtype(&value)?,
                    "shape" => made.shape = ints(&value)?,
                    "strides" => made.strides = ints(&value)?,
                    "offset" => made.offset = value.int()?,
                    "padded" => made.padded = same(&value, &Value::Bool(true)),
                    other => return fail(format!("a view has no {other}")),
                }
            }
            Ok(Value::view(made))
        }
        other => fail(format!("{} has no parts to replace", show(other))),
    }
}

pub fn attribute(of: &Value, name: &Arc<str>) -> Found<Value> {
    let found = match (of, &**name) {
        (Value::View(v), _) => match &**name {
            "slot" => Some(Value::Int(v.slot)),
            "dtype" => Some(Value::DType(v.dtype)),
            "shape" => Some(Value::ints(&v.shape)),
            "strides" => Some(Value::ints(&v.strides)),
            "offset" => Some(Value::Int(v.offset)),
            "padded" => Some(Value::Bool(v.padded)),
            "ndim" => Some(Value::Int(v.ndim() as i128)),
            "size" => Some(Value::Int(v.size())),
            "nbytes" => Some(Value::Int(v.size() * v.dtype.itemsize)),
            "contiguous" => Some(Value::Bool(v.contiguous())),
            "window" => Some(Value::ints(&[v.window().0, v.window().1])),
            _ => None,
        },
        (Value::DType(d), "name") => Some(Value::text(d.name)),
        (Value::DType(d), "short") => Some(Value::text(d.short)),
        (Value::DType(d), "itemsize") => Some(Value::Int(d.itemsize)),
        (Value::DType(d), "kind") => Some(Value::text(d.kind)),
        (Value::Caps(c), _) => match &**name {
            "f16" => Some(Value::Bool(c.f16)),
            "subgroups" => Some(Value::Bool(c.subgroups)),
            "alignment" => Some(Value::Int(c.alignment)),
            "max_invocations" => Some(Value::Int(c.max_invocations)),
            "max_workgroup_bytes" => Some(Value::Int(c.max_workgroup_bytes)),
            "max_binding" => Some(Value::Int(c.max_binding)),
            "max_groups" => Some(Value::Int(c.max_groups)),
            "tuning" => Some(from_json(&c.tuning)),
            "matrix" => Some(Value::None),
            "built_only" => Some(Value::Bool(true)),
            _ => None,
        },
        (Value::Space(s), _) => {
            let s = s.borrow();
            match &**name {
                "count" | "total" | "rows" | "batches" => Some(Value::Int(s.count)),
                "levels" => Some(Value::Int(s.levels)),
                "dims" => Some(Value::ints(&s.dims)),
                "cols" => Some(Value::Int(s.cols)),
                "absent" => Some(Value::ints(&s.absent)),
                "strides" => {
                    let pairs = s.strides.iter().map(|(k, v)| (Value::text(k), Value::ints(v)));
                    Some(Value::dict(pairs.collect()))
                }
                "views" => {
                    let pairs = s.views.iter();
                    let pairs = pairs.map(|(k, v)| (Value::text(k), Value::view(v.clone())));
                    Some(Value::dict(pairs.collect()))
                }
                _ => None,
            }
        }
        (Value::Runtime(kind), "LEVELS" | "TAIL") => layout::kind_of_space(kind)
            .map(|(_, levels, tail)| if &**name == "TAIL" { tail } else { levels })
            .map(|n| Value::Int(n as i128)),
        (Value::Runtime(module), "inf") if &**module == "math" => Some(Value::Float(f64::INFINITY)),
        (Value::Runtime(module), "nan") if &**module == "math" => Some(Value::Float(f64::NAN)),
        (Value::Runtime(module), _) => Some(Value::Bound(Rc::new((
            Value::Runtime(module.clone()),
            name.clone(),
        )))),
        (Value::Step(s), "groups") => Some(Value::Int(s.groups)),
        (Value::Scratch(s), "sizes") => Some(Value::ints(&s.borrow())),
        (Value::Dict(d), _) => d.borrow().get(&Value::Text(name.clone())).cloned(),
        _ => None,
    };
    match found {
        Some(value) => Ok(value),
        None => fail(format!("{} has no {name}", show(of))),
    }
}
