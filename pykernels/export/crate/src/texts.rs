//! The shader texts: data/wgsl/BODY.json has the lines of a body's texts once.

use serde_json::Value as Json;

use crate::contract::texts_of;
use crate::tree::{list, text};
use crate::{fail, Error};

pub struct Text {
    pub code: String,
    pub entry_point: String,
    pub features: Vec<String>,
    /// Bindings and their access: read, read_write or uniform.
    pub bindings: Vec<(u32, String)>,
}

/// The text of a variant, as "softmax T=f32 ... mode=read".
pub fn find(name: &str) -> Result<Text, Error> {
    let (body, key) = name.split_once(' ').unwrap_or((name, ""));
    let Some(file) = texts_of(body) else {
        return fail(name, "this variant was not exported");
    };
    let file: Json = match serde_json::from_str(file) {
        Ok(file) => file,
        Err(e) => return fail(name, e),
    };
    let Some(found) = file["variants"][key].as_str() else {
        return fail(name, "this variant was not exported");
    };
    let numbers: Vec<usize> = found.split(' ').filter_map(|n| n.parse().ok()).collect();
    let facts = &file["facts"][numbers[2]];
    let lines = list(&file["lines"]);
    let mut code = String::new();
    for piece in &numbers[..2] {
        let mut part: Vec<&str> = vec![];
        for span in text(&file["pieces"][*piece]).split(' ').filter(|s| !s.is_empty()) {
            let (first, last) = span.split_once('-').unwrap_or((span, span));
            let (first, last) = (first.parse().unwrap_or(0), last.parse().unwrap_or(0));
            part.extend(lines[first..=last].iter().map(text));
        }
        code += &part.join("\n");
    }
    Ok(Text {
        code,
        entry_point: text(&facts["entry_point"]).into(),
        features: list(&facts["features"]).iter().map(|f| text(f).into()).collect(),
        bindings: list(&facts["bindings"])
            .iter()
            .map(|b| (b["binding"].as_u64().unwrap_or(0) as u32, text(&b["access"]).into()))
            .collect(),
    })
}
