"""pykernels list"""

from __future__ import annotations

import json
import shutil
import textwrap

import click

from pykernels.wgsl.texts import belongs, output_dtypes

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
        rows.append({"name": name, "variants": count, "dtypes": output_dtypes(k), "doc": k["doc"]})
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    columns = shutil.get_terminal_size((100, 24)).columns
    width = max(len(r["name"]) for r in rows)
    for r in rows:
        line = f"{r['name']:<{width}}  {r['variants']:>4}  {_cut(r['dtypes'], 26):<26}  "
        click.echo(line + _cut(r["doc"], max(columns - len(line), 16)))


def _cut(text: str, width: int) -> str:
    return textwrap.shorten(text, width, placeholder=" ...")
