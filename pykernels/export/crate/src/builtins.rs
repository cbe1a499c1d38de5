//! Python's built-in functions, and what plans know of tensors.

use std::rc::Rc;
use std::sync::Arc;

use crate::contract::DTYPES;
use crate::eval::Interp;
use crate::layout::{self, Ints, Space, View};
use crate::operators::{binary, floor_div, less, pairs, sequence, zero};
use crate::value::{by_name, fail, repr, same, show, Found, Named, Value};

pub fn runtime(name: &Arc<str>) -> Value {
    match &**name {
        "DTYPES" => Value::dict(DTYPES.iter().map(|d| (Value::text(d.name), Value::DType(d))).collect()),
        _ => Value::Runtime(name.clone()),
    }
}

pub fn ints(of: &Value) -> Found<Ints> {
    sequence(of)?.iter().map(Value::int).collect()
}

pub fn texts(interp: &Interp, of: &Value) -> Found<Vec<String>> {
    interp.list(of)?.iter().map(|t| Ok(t.as_text()?.to_string())).collect()
}

fn views(of: &Value) -> Found<layout::Views> {
    let given = pairs(of)?.into_iter().filter(|(_, v)| !v.is_none());
    given.map(|(k, v)| Ok((k.as_text()?.to_string(), (*v.as_view()?).clone()))).collect()
}

/// A positional argument, or one by name, or None.
pub fn arg(args: &[Value], named: &Named<Value>, i: usize, name: &str) -> Value {
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

pub fn dict_pairs(interp: &Interp, of: &Value) -> Found<Vec<(Value, Value)>> {
    match of {
        Value::Generator(_) => pairs(&Value::list(interp.list(of)?)),
        other => pairs(other),
    }
}

pub fn as_dtype(of: &Value) -> Found<&'static layout::DType> {
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
pub fn sort(interp: &Interp, all: &mut Vec<Value>, named: &Named<Value>) -> Found<()> {
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
