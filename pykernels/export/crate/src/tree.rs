//! The statements and expressions of plans, read from data/plans.json.
//!
//! pykernels/export/_expressions.py and _translate.py, which write that file, list the nodes.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

pub enum Literal {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
}

pub enum Compared {
    Eq,
    NotEq,
    Lt,
    LtE,
    Gt,
    GtE,
    In,
    NotIn,
    Is,
    IsNot,
}

pub type Arguments = Vec<(Option<Arc<str>>, Node)>;
type One = Box<Node>;

pub enum Node {
    Const(Literal),
    Local(u32),
    Runtime(Arc<str>),
    Body(Arc<str>),
    Configs(Arc<str>),
    Plan(Arc<str>, Option<u32>),
    Table(Vec<(Json, Json)>),
    Attr(One, Arc<str>),
    At(One, One),
    Cut(One, [Option<One>; 3]),
    Call(One, Vec<Node>, Arguments),
    Method(One, Arc<str>, Vec<Node>, Arguments),
    Bin(Arc<str>, One, One),
    Neg(One),
    Not(One),
    Invert(One),
    And(Vec<Node>),
    Or(Vec<Node>),
    Compare(One, Vec<(Compared, Node)>),
    If(One, One, One),
    List(Vec<Node>),
    Tuple(Vec<Node>),
    Set(Vec<Node>),
    Dict(Vec<(Option<Node>, Node)>),
    Def(Arc<Def>),
    Text(Vec<Node>),
    Walrus(u32, One),
    Yield(One),
    YieldFrom(One),
    Comp(Arc<Comp>),
    Star(One),
}

pub struct Def {
    /// The names of arguments; the first `positional` of them may be given by position.
    pub names: Vec<(u32, Arc<str>)>,
    pub positional: usize,
    pub rest: Option<u32>,
    pub named: Option<u32>,
    pub defaults: Vec<(Arc<str>, Node)>,
    pub locals: Vec<u32>,
    pub body: Vec<Statement>,
    pub generator: bool,
}

#[derive(PartialEq, Clone, Copy)]
pub enum Kind {
    List,
    Generator,
    Set,
    Dict,
}

pub struct Loop {
    pub target: Target,
    pub source: Node,
    pub tests: Vec<Node>,
}

pub struct Comp {
    pub kind: Kind,
    pub names: Vec<u32>,
    pub loops: Vec<Loop>,
    pub element: Node,
}

pub enum Target {
    To(u32),
    Parts(Vec<Target>),
    Star(Box<Target>),
    Item(Node, Node),
}

pub enum Statement {
    Define(u32, Arc<Def>),
    Class(Arc<ClassDef>),
    Assign(Target, Node),
    Augment(Target, Arc<str>, Node, Node),
    Return(Node),
    Expr(Node),
    Raise(Node),
    Assert(Node),
    If(Node, Vec<Statement>, Vec<Statement>),
    While(Node, Vec<Statement>),
    For(Target, Node, Vec<Statement>),
    Try(Vec<Statement>, Vec<Statement>),
    Break,
    Continue,
}

pub struct ClassDef {
    pub symbol: u32,
    pub name: Arc<str>,
    pub tuple: bool,
    pub fields: Vec<Arc<str>>,
    pub defaults: Vec<(Arc<str>, Arc<Node>)>,
    pub methods: Vec<(Arc<str>, Arc<Def>)>,
    pub getters: Vec<(Arc<str>, Arc<Def>)>,
    pub statics: Vec<(Arc<str>, Arc<Def>)>,
    pub of_class: Vec<Arc<str>>,
}

pub struct Module {
    pub names: Vec<u32>,
    pub body: Vec<Statement>,
}

/// Numbers of names.
#[derive(Default)]
pub struct Symbols {
    numbers: HashMap<String, u32>,
}

/// What data/ holds is written by an export: it panics where this module cannot read it.
impl Symbols {
    pub fn number(&mut self, name: &str) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(name.to_string()).or_insert(next)
    }

    pub fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub fn module(&mut self, of: &Json) -> Module {
        let names = list(&of["names"]).iter().map(|n| self.number(text(n))).collect();
        Module { names, body: self.block(&of["body"]) }
    }

    pub fn node(&mut self, of: &Json) -> Node {
        let p = list(of);
        match text(&p[0]) {
            "const" => Node::Const(literal(&p[1])),
            "none" => Node::Const(Literal::None),
            "local" => Node::Local(self.number(text(&p[1]))),
            "py" => Node::Runtime(shared(&p[1])),
            "body" => Node::Body(shared(&p[1])),
            "configs" => Node::Configs(shared(&p[1])),
            "plan" => Node::Plan(shared(&p[1]), p[2].as_str().map(|n| self.number(n))),
            "table" => {
                let pairs = list(&p[1]).iter().map(|pair| (pair[0].clone(), pair[1].clone()));
                Node::Table(pairs.collect())
            }
            "attr" => Node::Attr(self.one(&p[1]), shared(&p[2])),
            "at" => Node::At(self.one(&p[1]), self.one(&p[2])),
            "cut" => {
                let ends = [&p[2], &p[3], &p[4]].map(|e| (!e.is_null()).then(|| self.one(e)));
                Node::Cut(self.one(&p[1]), ends)
            }
            "call" => Node::Call(self.one(&p[1]), self.all(&p[2]), self.arguments(&p[3])),
            "method" => {
                let (args, named) = (self.all(&p[3]), self.arguments(&p[4]));
                Node::Method(self.one(&p[1]), shared(&p[2]), args, named)
            }
            "bin" => Node::Bin(shared(&p[1]), self.one(&p[2]), self.one(&p[3])),
            "neg" => Node::Neg(self.one(&p[1])),
            "not" => Node::Not(self.one(&p[1])),
            "invert" => Node::Invert(self.one(&p[1])),
            "and" => Node::And(self.all(&p[1])),
            "or" => Node::Or(self.all(&p[1])),
            "compare" => {
                let rest = list(&p[2]).iter().map(|r| (compared(text(&r[0])), self.node(&r[1])));
                let rest = rest.collect();
                Node::Compare(self.one(&p[1]), rest)
            }
            "if" => Node::If(self.one(&p[1]), self.one(&p[2]), self.one(&p[3])),
            "list" => Node::List(self.all(&p[1])),
            "tuple" => Node::Tuple(self.all(&p[1])),
            "set" => Node::Set(self.all(&p[1])),
            "dict" => {
                let pairs = list(&p[1]).iter();
                Node::Dict(pairs.map(|e| (self.optional(&e[0]), self.node(&e[1]))).collect())
            }
            "def" => Node::Def(self.def(of)),
            "text" => Node::Text(self.all(&p[1])),
            "walrus" => Node::Walrus(self.number(text(&p[1][1])), self.one(&p[2])),
            "yield" => Node::Yield(self.one(&p[1])),
            "yieldfrom" => Node::YieldFrom(self.one(&p[1])),
            "comp" => Node::Comp(self.comp(p)),
            "star" => Node::Star(self.one(&p[1])),
            other => panic!("data/plans.json has a node {other}"),
        }
    }

    fn comp(&mut self, p: &[Json]) -> Arc<Comp> {
        let kind = match text(&p[1]) {
            "list" => Kind::List,
            "generator" => Kind::Generator,
            "set" => Kind::Set,
            _ => Kind::Dict,
        };
        let names = list(&p[2]).iter().map(|n| self.number(text(n))).collect();
        let loops = list(&p[3])
            .iter()
            .map(|e| Loop {
                target: self.target(&e[0]),
                source: self.node(&e[1]),
                tests: self.all(&e[2]),
            })
            .collect();
        Arc::new(Comp { kind, names, loops, element: self.node(&p[4]) })
    }

    fn def(&mut self, of: &Json) -> Arc<Def> {
        let marks = &of[1];
        Arc::new(Def {
            names: list(&marks["names"])
                .iter()
                .map(|n| (self.number(text(n)), shared(n)))
                .collect(),
            positional: marks["positional"].as_u64().unwrap_or(0) as usize,
            rest: marks["rest"].as_str().map(|n| self.number(n)),
            named: marks["named"].as_str().map(|n| self.number(n)),
            defaults: list(&of[2]).iter().map(|d| (shared(&d[0]), self.node(&d[1]))).collect(),
            locals: list(&of[3]).iter().map(|n| self.number(text(n))).collect(),
            body: self.block(&of[4]),
            generator: of[5] == true,
        })
    }

    fn target(&mut self, of: &Json) -> Target {
        match text(&of[0]) {
            "to" => Target::To(self.number(text(&of[1][1]))),
            "parts" => Target::Parts(list(&of[1]).iter().map(|t| self.target(t)).collect()),
            "star" => Target::Star(Box::new(self.target(&of[1]))),
            _ => Target::Item(self.node(&of[1]), self.node(&of[2])),
        }
    }

    fn block(&mut self, of: &Json) -> Vec<Statement> {
        list(of).iter().map(|s| self.statement(s)).collect()
    }

    fn statement(&mut self, of: &Json) -> Statement {
        match text(&of[0]) {
            "define" => Statement::Define(self.number(text(&of[1])), self.def(&of[2])),
            "class" => Statement::Class(self.class(&of[1])),
            "assign" => Statement::Assign(self.target(&of[1]), self.node(&of[2])),
            "augment" => {
                let (left, right) = (self.node(&of[3]), self.node(&of[4]));
                Statement::Augment(self.target(&of[1]), shared(&of[2]), left, right)
            }
            "return" => Statement::Return(self.node(&of[1])),
            "expr" => Statement::Expr(self.node(&of[1])),
            "raise" => Statement::Raise(self.node(&of[1])),
            "assert" => Statement::Assert(self.node(&of[1])),
            "if" => Statement::If(self.node(&of[1]), self.block(&of[2]), self.block(&of[3])),
            "while" => Statement::While(self.node(&of[1]), self.block(&of[2])),
            "for" => Statement::For(self.target(&of[1]), self.node(&of[2]), self.block(&of[3])),
            "try" => Statement::Try(self.block(&of[1]), self.block(&of[2])),
            "break" => Statement::Break,
            "continue" => Statement::Continue,
            other => panic!("data/plans.json has a statement {other}"),
        }
    }

    fn class(&mut self, of: &Json) -> Arc<ClassDef> {
        let mut functions = |key: &str| -> Vec<(Arc<str>, Arc<Def>)> {
            list(&of[key]).iter().map(|m| (shared(&m[0]), self.def(&m[1]))).collect()
        };
        let (methods, getters) = (functions("methods"), functions("getters"));
        let statics = functions("statics");
        Arc::new(ClassDef {
            symbol: self.number(text(&of["name"])),
            name: shared(&of["name"]),
            tuple: of["kind"] == "tuple",
            fields: list(&of["fields"]).iter().map(shared).collect(),
            defaults: list(&of["defaults"])
                .iter()
                .map(|d| (shared(&d[0]), Arc::new(self.node(&d[1]))))
                .collect(),
            methods,
            getters,
            statics,
            of_class: list(&of["of_class"]).iter().map(shared).collect(),
        })
    }

    fn one(&mut self, of: &Json) -> One {
        Box::new(self.node(of))
    }

    fn optional(&mut self, of: &Json) -> Option<Node> {
        (!of.is_null()).then(|| self.node(of))
    }

    fn all(&mut self, of: &Json) -> Vec<Node> {
        list(of).iter().map(|n| self.node(n)).collect()
    }

    fn arguments(&mut self, of: &Json) -> Arguments {
        list(of).iter().map(|a| (a[0].as_str().map(Arc::from), self.node(&a[1]))).collect()
    }
}

pub fn list(of: &Json) -> &[Json] {
    of.as_array().map(Vec::as_slice).unwrap_or(&[])
}

pub fn text(of: &Json) -> &str {
    of.as_str().unwrap_or("")
}

fn shared(of: &Json) -> Arc<str> {
    Arc::from(text(of))
}

pub fn literal(of: &Json) -> Literal {
    match of {
        Json::Null => Literal::None,
        Json::Bool(b) => Literal::Bool(*b),
        Json::String(s) => Literal::Text(Arc::from(s.as_str())),
        Json::Number(n) => match n.as_i64().map(i128::from).or(n.as_u64().map(i128::from)) {
            Some(whole) => Literal::Int(whole),
            None => Literal::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        _ => panic!("data/plans.json has a constant {of}"),
    }
}

fn compared(name: &str) -> Compared {
    match name {
        "Eq" => Compared::Eq,
        "NotEq" => Compared::NotEq,
        "Lt" => Compared::Lt,
        "LtE" => Compared::LtE,
        "Gt" => Compared::Gt,
        "GtE" => Compared::GtE,
        "In" => Compared::In,
        "NotIn" => Compared::NotIn,
        "Is" => Compared::Is,
        _ => Compared::IsNot,
    }
}
