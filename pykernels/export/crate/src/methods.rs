//! Python's methods and attributes, as far as plans use them.

use std::rc::Rc;
use std::sync::Arc;

use crate::builtins::{arg, as_dtype, dict_pairs, ints, sort, texts};
use crate::eval::{from_json, Interp};
use crate::layout::{self, View};
use crate::operators::{at, binary};
use crate::value::{fail, repr, same, show, Dict, Found, Named, Object, Value};

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
        Value::Step(s) => {
            let mut made = (**s).clone();
            for (name, value) in named {
                match &*name {
                    "scalars" => match value {
                        Value::Tuple(own) => made.scalars = own.to_vec(),
                        other => return fail(format!("{} are no scalars", show(&other))),
                    },
                    other => return fail(format!("a step has no {other}")),
                }
            }
            Ok(Value::Step(Rc::new(made)))
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
        // A step stands for its body, of which plans ask for the scalar arguments only.
        (Value::Step(_), "body") => Some(of.clone()),
        (Value::Step(s), "args") => {
            Some(Value::tuple(s.body.args.iter().map(|(n, _)| Value::text(n)).collect()))
        }
        (Value::Scratch(s), "sizes") => Some(Value::ints(&s.borrow())),
        (Value::Dict(d), _) => d.borrow().get(&Value::Text(name.clone())).cloned(),
        _ => None,
    };
    match found {
        Some(value) => Ok(value),
        None => fail(format!("{} has no {name}", show(of))),
    }
}
