//! Expressions of plans, and the elements of what they iterate over.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::builtins;
use crate::eval::{from_json, from_literal, Frame, Interp, Sink};
use crate::operators;
use crate::tree::{Comp, Compared, Kind, Node};
use crate::value::{fail, same, show, Dict, Env, Found, Generator, Named, Stop, Value};

impl Interp {
    pub fn test(&self, frame: &mut Frame, node: &Node) -> Found<bool> {
        let value = self.value(frame, node)?;
        self.truth(&value)
    }

    /// `bool` of Python.
    pub fn truth(&self, of: &Value) -> Found<bool> {
        Ok(match of {
            Value::None => false,
            Value::Bool(b) => *b,
            Value::Int(n) => *n != 0,
            Value::Float(x) => *x != 0.0,
            Value::Text(t) => !t.is_empty(),
            Value::Dict(d) | Value::Set(d) => !d.borrow().pairs.is_empty(),
            other => other.parts().is_none_or(|parts| !parts.is_empty()),
        })
    }

    pub fn value(&self, frame: &mut Frame, node: &Node) -> Found<Value> {
        Ok(match node {
            Node::Const(literal) => from_literal(literal),
            Node::Local(name) => match frame.env.get(*name) {
                Some(value) => value,
                None => return fail("a name is read before it has a value"),
            },
            Node::Runtime(name) => builtins::runtime(name),
            Node::Body(name) => Value::Body(name.clone()),
            Node::Configs(name) => self.configs(name)?,
            Node::Plan(name, None) => Value::Module(name.clone()),
            Node::Plan(module, Some(name)) => self.in_module(module, *name)?,
            Node::Table(pairs) => {
                let pairs = pairs.iter().map(|(k, v)| (from_json(k), from_json(v)));
                Value::dict(pairs.collect())
            }
            Node::Attr(of, name) => {
                let of = self.value(frame, of)?;
                self.attribute(&of, name)?
            }
            Node::At(of, index) => {
                let (of, index) = (self.value(frame, of)?, self.value(frame, index)?);
                operators::at(&of, &index)?
            }
            Node::Cut(of, ends) => {
                let of = self.value(frame, of)?;
                let mut found = [None; 3];
                for (to, end) in found.iter_mut().zip(ends) {
                    if let Some(node) = end {
                        let value = self.value(frame, node)?;
                        *to = if value.is_none() { None } else { Some(value.int()?) };
                    }
                }
                operators::cut(&of, found)?
            }
            Node::Call(function, args, named) => {
                let function = self.value(frame, function)?;
                let (args, named) = (self.all(frame, args)?, self.named(frame, named)?);
                self.call(&function, args, named)?
            }
            Node::Method(of, name, args, named) => {
                let of = self.value(frame, of)?;
                let (args, named) = (self.all(frame, args)?, self.named(frame, named)?);
                self.method(&of, name, args, named)?
            }
            Node::Bin(op, a, b) => {
                let (a, b) = (self.value(frame, a)?, self.value(frame, b)?);
                operators::binary(op, &a, &b)?
            }
            Node::Neg(of) => match self.value(frame, of)? {
                Value::Float(x) => Value::Float(-x),
                other => Value::Int(-other.int()?),
            },
            Node::Not(of) => Value::Bool(!self.test(frame, of)?),
            Node::Invert(of) => Value::Int(!self.value(frame, of)?.int()?),
            Node::And(nodes) => self.first(frame, nodes, false)?,
            Node::Or(nodes) => self.first(frame, nodes, true)?,
            Node::Compare(left, rest) => {
                let mut left = self.value(frame, left)?;
                for (op, right) in rest {
                    let right = self.value(frame, right)?;
                    if !compare(op, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Value::Bool(true)
            }
            Node::If(test, a, b) => {
                let chosen = if self.test(frame, test)? { a } else { b };
                self.value(frame, chosen)?
            }
            Node::List(nodes) => Value::list(self.all(frame, nodes)?),
            Node::Tuple(nodes) => Value::tuple(self.all(frame, nodes)?),
            Node::Set(nodes) => Value::set(self.all(frame, nodes)?),
            Node::Dict(pairs) => {
                let mut made = Dict::default();
                for (key, value) in pairs {
                    let value = self.value(frame, value)?;
                    match key {
                        Some(key) => made.put(self.value(frame, key)?, value),
                        None => {
                            for (k, v) in operators::pairs(&value)? {
                                made.put(k, v);
                            }
                        }
                    }
                }
                Value::Dict(Rc::new(RefCell::new(made)))
            }
            Node::Def(def) => Value::Function(self.define(&frame.env, def)),
            Node::Text(nodes) => {
                let parts = self.all(frame, nodes)?;
                Value::text(parts.iter().map(show).collect::<String>())
            }
            Node::Walrus(name, value) => {
                let value = self.value(frame, value)?;
                frame.env.set(*name, value.clone());
                value
            }
            Node::Yield(of) => {
                let value = self.value(frame, of)?;
                self.give(frame, value)?;
                Value::None
            }
            Node::YieldFrom(of) => {
                let source = self.value(frame, of)?;
                self.each(&source, &mut |value| {
                    self.give(frame, value)?;
                    Ok(true)
                })?;
                Value::None
            }
            Node::Comp(comp) => self.comp(frame, comp)?,
            Node::Star(_) => return fail("a starred value stands alone"),
        })
    }

    pub fn give(&self, frame: &mut Frame, value: Value) -> Found<()> {
        match &mut frame.sink {
            Some(sink) => sink(value),
            None => fail("yield outside of a generator"),
        }
    }

    /// The first value whose truth is `wanted`, else the last one.
    pub fn first(&self, frame: &mut Frame, nodes: &[Node], wanted: bool) -> Found<Value> {
        let mut value = Value::None;
        for node in nodes {
            value = self.value(frame, node)?;
            if self.truth(&value)? == wanted {
                break;
            }
        }
        Ok(value)
    }

    pub fn all(&self, frame: &mut Frame, nodes: &[Node]) -> Found<Vec<Value>> {
        let mut made = Vec::with_capacity(nodes.len());
        for node in nodes {
            if let Node::Star(of) = node {
                let of = self.value(frame, of)?;
                made.extend(self.list(&of)?);
            } else {
                made.push(self.value(frame, node)?);
            }
        }
        Ok(made)
    }

    pub fn named(
        &self,
        frame: &mut Frame,
        nodes: &[(Option<Arc<str>>, Node)],
    ) -> Found<Named<Value>> {
        let mut made = vec![];
        for (name, node) in nodes {
            let value = self.value(frame, node)?;
            match name {
                Some(name) => made.push((name.clone(), value)),
                None => {
                    for (k, v) in operators::pairs(&value)? {
                        made.push((k.as_text()?, v));
                    }
                }
            }
        }
        Ok(made)
    }

    pub fn comp(&self, frame: &mut Frame, comp: &Arc<Comp>) -> Found<Value> {
        let first = self.value(frame, &comp.loops[0].source)?;
        let made = Generator::Comp(comp.clone(), frame.env.clone(), first);
        let made = Value::Generator(Rc::new(made));
        Ok(match comp.kind {
            Kind::Generator => made,
            Kind::List => Value::list(self.list(&made)?),
            Kind::Set => Value::set(self.list(&made)?),
            Kind::Dict => {
                let mut dict = Dict::default();
                self.each(&made, &mut |pair| {
                    let parts = pair.parts().unwrap_or_default();
                    dict.put(parts[0].clone(), parts[1].clone());
                    Ok(true)
                })?;
                Value::Dict(Rc::new(RefCell::new(dict)))
            }
        })
    }

    /// The loops of a comprehension from number `i` on.
    pub fn loops(
        &self,
        frame: &mut Frame,
        comp: &Comp,
        i: usize,
        first: &Value,
        sink: Sink,
    ) -> Found<()> {
        let Some(own) = comp.loops.get(i) else {
            let value = self.value(frame, &comp.element)?;
            return sink(value);
        };
        let source = if i == 0 { first.clone() } else { self.value(frame, &own.source)? };
        self.each(&source, &mut |item| {
            self.assign(frame, &own.target, item)?;
            for test in &own.tests {
                if !self.test(frame, test)? {
                    return Ok(true);
                }
            }
            self.loops(frame, comp, i + 1, first, sink)?;
            Ok(true)
        })
    }

    // -- iteration --------------------------------------------------------------------------------

    /// Calls `f` with each element until it says false.
    pub fn each(&self, of: &Value, f: &mut dyn FnMut(Value) -> Found<bool>) -> Found<()> {
        let all = match of {
            Value::Generator(g) => return self.generate(g, f),
            Value::Dict(d) | Value::Set(d) => {
                d.borrow().pairs.iter().map(|(k, _)| k.clone()).collect()
            }
            Value::Text(t) => t.chars().map(|c| Value::text(c.to_string())).collect(),
            other => match other.parts() {
                Some(parts) => parts,
                None => return fail(format!("{} is not iterable", show(other))),
            },
        };
        for value in all {
            if !f(value)? {
                break;
            }
        }
        Ok(())
    }

    pub fn generate(&self, of: &Generator, f: &mut dyn FnMut(Value) -> Found<bool>) -> Found<()> {
        let mut sink = |value| if f(value)? { Ok(()) } else { Err(Stop::Enough) };
        let ended = match of {
            Generator::Comp(comp, env, first) => {
                let env = Env::new(Some(env.clone()), &comp.names);
                self.loops(&mut Frame { env, sink: None }, comp, 0, first, &mut sink)
            }
            Generator::Call(def, env) => {
                // A generator may be read twice by `next`: each reading begins anew.
                let vars = env.vars.borrow().clone();
                let own = Rc::new(Env { vars: RefCell::new(vars), parent: env.parent.clone() });
                let mut frame = Frame { env: own, sink: Some(&mut sink) };
                self.block(&mut frame, &def.body).map(|_| ())
            }
        };
        match ended {
            Err(Stop::Enough) => Ok(()),
            other => other,
        }
    }

    pub fn list(&self, of: &Value) -> Found<Vec<Value>> {
        let mut made = vec![];
        self.each(of, &mut |value| {
            made.push(value);
            Ok(true)
        })?;
        Ok(made)
    }
}

fn compare(op: &Compared, a: &Value, b: &Value) -> Found<bool> {
    let is = |a: &Value, b: &Value| match (a, b) {
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Bool(_), _) | (_, Value::Bool(_)) => false,
        _ => same(a, b),
    };
    Ok(match op {
        Compared::Eq => same(a, b),
        Compared::NotEq => !same(a, b),
        Compared::Lt => operators::less(a, b)?,
        Compared::LtE => !operators::less(b, a)?,
        Compared::Gt => operators::less(b, a)?,
        Compared::GtE => !operators::less(a, b)?,
        Compared::In => operators::has(b, a)?,
        Compared::NotIn => !operators::has(b, a)?,
        Compared::Is => is(a, b),
        Compared::IsNot => !is(a, b),
    })
}
