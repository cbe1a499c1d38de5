//! Python's operators, and what they do with lists, tuples, dicts, sets and texts.

use crate::value::{fail, repr, same, show, Found, Value};

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

pub fn zero() -> Found<Value> {
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

pub fn floor_div(x: i128, y: i128) -> i128 {
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
pub fn sequence(of: &Value) -> Found<Vec<Value>> {
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
