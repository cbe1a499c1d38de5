"""pykernels list"""

from __future__ import annotations

import json
from typing import Any

import click

from pykernels.texts import belongs

from ._manifest import manifest

__all__ = ["command"]


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the kernels: variants, dtypes, and what they compute."""
    built = manifest()
    rows = []
    for name, k in sorted(built["kernels"].items()):
        count = sum(belongs(k, v) for v in built["variants"].values())
        rows.append({"name": name, "variants": count, "dtypes": _dtypes(k), "doc": k["doc"]})
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    width = max(len(r["name"]) for r in rows)
    wide = max(len(r["dtypes"]) for r in rows)
    for r in rows:
        click.echo(f"{r['name']:<{width}}  {r['variants']:>4}  {r['dtypes']:<{wide}}  {r['doc']}")


def _dtypes(kernel: dict[str, Any]) -> str:
    """The dtypes of the output."""
    output = next(t for t in kernel["tensors"] if t["role"] == "out")
    return "any" if len(output["dtypes"]) > 8 else ", ".join(output["dtypes"])
