//! What the tests of pykernels ask for, as JSON: the steps of a call, and calls of any kernel.

use std::sync::Arc;

use serde_json::{json, Value as Json};

use crate::call::{Arguments, Choice};
use crate::eval::from_json;
use crate::gpu::Gpu;
use crate::layout::{dtype, View};
use crate::program::Program;
use crate::step::{Bound, Caps, Step};
use crate::tensor::Tensor;
use crate::tree::{list, text};
use crate::value::Value;
use crate::Error;

/// The answer to one question, {"what": "run" or "plan", ...}.
pub fn answer(gpu: &mut Option<Gpu>, line: &str) -> String {
    let call: Json = match serde_json::from_str(line) {
        Ok(call) => call,
        Err(e) => return json!({ "error": e.to_string() }).to_string(),
    };
    let found = match call["what"] == "run" {
        false => steps(&call),
        true => match gpu.as_ref().map_or_else(Gpu::open, |g| Ok(g.clone())) {
            Ok(opened) => run(gpu.insert(opened), &call),
            Err(e) => Err(e),
        },
    };
    match found {
        Ok(found) => json!({ "answer": found }).to_string(),
        Err(e) => json!({ "error": e.0 }).to_string(),
    }
}

fn whole(of: &Json) -> i128 {
    of.as_i64().unwrap_or(0).into()
}

fn view(slot: usize, of: &Json) -> Option<View> {
    Some(View {
        slot: slot as i128,
        dtype: dtype(text(&of["dtype"]))?,
        shape: list(&of["shape"]).iter().map(whole).collect(),
        strides: list(&of["strides"]).iter().map(whole).collect(),
        offset: whole(&of["offset"]),
        padded: of["padded"] == true,
    })
}

/// {"kernel", "caps", "views", "options"} to {"scratch", "steps"}.
fn steps(of: &Json) -> Result<Json, Error> {
    let Some(kernel) = Program::get().kernels.get(text(&of["kernel"])) else {
        return Err(Error(format!("no kernel {}", of["kernel"])));
    };
    let caps = &of["caps"];
    let made = Caps {
        f16: caps["f16"] == true,
        subgroups: caps["subgroups"] == true,
        alignment: whole(&caps["alignment"]),
        max_invocations: whole(&caps["max_invocations"]),
        max_workgroup_bytes: whole(&caps["max_workgroup_bytes"]),
        max_binding: whole(&caps["max_binding"]),
        max_groups: whole(&caps["max_groups"]),
        tuning: Arc::new(caps["tuning"].clone()),
    };
    let views = kernel.tensors.iter().enumerate();
    let views = views.map(|(i, a)| view(i, &of["views"][&a.name])).collect();
    let options = list(&of["options"]).iter().map(from_json).collect();
    let (steps, scratch) = kernel.plan(&made, views, options)?;
    let numbers: Vec<i64> = scratch.iter().map(|n| *n as i64).collect();
    let steps: Vec<Json> = steps.iter().map(|s| step(s)).collect();
    Ok(json!({ "scratch": numbers, "steps": steps }))
}

fn ints(of: &[i128]) -> Vec<i64> {
    of.iter().map(|n| *n as i64).collect()
}

fn value(of: &Value) -> Json {
    match of {
        Value::None => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(n) => json!(*n as i64),
        Value::Float(x) => json!(x),
        other => json!(crate::value::show(other)),
    }
}

fn step(of: &Step) -> Json {
    let mut found = json!({
        "body": &*of.body.name,
        "axes": of.axes.iter().map(value).collect::<Vec<_>>(),
        "bound": of.bound.iter().map(bound).collect::<Vec<_>>(),
        "words": ints(&of.words),
        "values": of.values.iter().map(value).collect::<Vec<_>>(),
        "groups": of.groups as i64,
    });
    if !of.scalars.is_empty() {
        found["scalars"] = of.scalars.iter().map(value).collect::<Vec<_>>().into();
    }
    found
}

fn bound(of: &Bound) -> Json {
    let view = of.view.as_ref().map(|v| {
        json!({
            "slot": v.slot as i64,
            "itemsize": v.dtype.itemsize as i64,
            "shape": ints(&v.shape),
            "strides": ints(&v.strides),
            "offset": v.offset as i64,
        })
    });
    json!({
        "name": &*of.name,
        "role": if of.out { "out" } else { "in" },
        "view": view,
        "unit": of.unit as i64,
        "elem": of.elem as i64,
        "strides": ints(&of.strides),
        "readonly": of.readonly,
        "alias": &*of.alias,
    })
}

/// Runs {"kernel", "tensors": {name: {"dtype", "shape", "bytes", "in"}}, "scalars", "options"} on
/// the first adapter; `in` names a tensor whose memory a tensor shares. Returns the bytes of all.
fn run(gpu: &Gpu, of: &Json) -> Result<Json, Error> {
    let name = text(&of["kernel"]);
    let Some(kernel) = Program::get().kernels.get(name) else {
        return Err(Error(format!("no kernel {name}")));
    };
    let mut given = Arguments::new(&kernel.name);
    let mut made: Vec<(&str, Tensor)> = vec![];
    for a in &kernel.tensors {
        let one = &of["tensors"][&a.name];
        if one.is_null() {
            continue;
        }
        let shape: Vec<usize> = list(&one["shape"]).iter().map(|n| whole(n) as usize).collect();
        let tensor = match made.iter().find(|(n, _)| *n == text(&one["in"])) {
            Some((_, other)) => other.clone(),
            None => {
                let tensor = gpu.empty(&shape, text(&one["dtype"]))?;
                let mut bytes: Vec<u8> =
                    list(&one["bytes"]).iter().map(|b| whole(b) as u8).collect();
                bytes.resize(bytes.len().div_ceil(4) * 4, 0);
                gpu.queue().write_buffer(tensor.buffer(), 0, &bytes);
                tensor
            }
        };
        given = given.tensor(&a.name, &tensor);
        made.push((&a.name, tensor));
    }
    for s in &kernel.scalars {
        match &of["scalars"][&s.name] {
            Json::Null => {}
            Json::Bool(b) => given = given.scalar(&s.name, (*b).into()),
            other => match other.as_i64() {
                Some(n) => given = given.scalar(&s.name, n.into()),
                None => given = given.scalar(&s.name, other.as_f64().unwrap_or(0.0).into()),
            },
        }
    }
    for (option, _) in &kernel.options {
        if let Some(value) = of["options"].get(option) {
            given = given.option(option, choice(value));
        }
    }
    gpu.prepare(&given)?.run()?;
    let mut out = serde_json::Map::new();
    for (name, tensor) in &made {
        let flat = tensor.bytes();
        out.insert(name.to_string(), json!(gpu.read::<u8>(&flat)?));
    }
    Ok(Json::Object(out))
}

fn choice(of: &Json) -> Choice {
    match of {
        Json::Null => Choice::None,
        Json::Bool(b) => Choice::Flag(*b),
        Json::String(s) => Choice::Word(s.clone()),
        Json::Array(all) => Choice::Many(all.iter().map(choice).collect()),
        other => match other.as_i64() {
            Some(n) => Choice::Whole(n),
            None => Choice::Float(other.as_f64().unwrap_or(f64::NAN)),
        },
    }
}
