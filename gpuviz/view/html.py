"""One self-contained HTML output: a static picture, and the code that replaces it with the linked views.

The fragment works in JupyterLab, Notebook 7, nbconvert and inside an iframe, offline, and as the only output that is
left. Where scripts do not run (an untrusted notebook, an e-mail) the picture and the numbers stay. Everything that
comes from a trace is either base64 text or escaped.
"""

from __future__ import annotations

import json
import os
import secrets
from os import PathLike
from pathlib import Path

from bokeh.embed import json_item

from gpuviz.model import Trace
from gpuviz.model.atomic import replacing
from gpuviz.view import library
from gpuviz.view.dashboard import VIEWS, build_dashboard
from gpuviz.view.fallback import escaped, fallback_html

_BOOTSTRAP = """(async () => {
  const root = document.getElementById(ID);
  const say = (problem) => {
    const line = document.createElement("p");
    line.className = "gpuviz-problem";
    line.textContent = "gpuviz could not start the interactive views in this page: " + problem;
    root.append(line);
  };
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  const run = (source) => {
    const script = document.createElement("script");
    script.textContent = source;
    document.head.append(script);
    script.remove();
  };
  try {
    const shared = (globalThis.__gpuviz ??= {libraries: {}, engines: {}});
    shared.libraries[BOKEH_VERSION] ??= (async () => {
      const before = globalThis.Bokeh;
      if (before?.version === BOKEH_VERSION) return before;
      run(await unpack(BOKEH));
      const loaded = globalThis.Bokeh;
      if (before) globalThis.Bokeh = before;
      return loaded;
    })();
    shared.engines[ENGINE_KEY] ??= (async () => {
      run("globalThis.__gpuviz.loading = " + await unpack(ENGINE));
      const engine = shared.loading;
      delete shared.loading;
      return engine;
    })();
    const Bokeh = await shared.libraries[BOKEH_VERSION];
    const engine = await shared.engines[ENGINE_KEY];
    if (!Bokeh || !engine) throw new Error("a security policy of the page forbids inline scripts");
    await engine.start({root, Bokeh, item: ITEM, payload: PAYLOAD, session: ID});
  } catch (error) {
    say(String(error?.message ?? error));
    console.warn("gpuviz", error);
  }
})()"""


def output_html(trace: Trace, views: tuple[str, ...] = VIEWS) -> str:
    """The fragment for one `text/html` output; `views` names the figures that it holds."""
    # Bokeh compresses binary columns by this level; its default is made for servers, not for files.
    os.environ.setdefault("BOKEH_COMPRESSION_LEVEL", "9")
    dashboard = build_dashboard(trace, views)
    item = json_item(dashboard.layout)
    item.pop("target_id", None)
    identity = f"gpuviz-{secrets.token_hex(6)}"
    engine = library.engine_packed()
    values = {
        "ID": identity,
        "BOKEH_VERSION": library.bokeh_version(),
        "ENGINE_KEY": engine[-24:],
        "BOKEH": library.bokeh_packed(),
        "ENGINE": engine,
        "ITEM": item,
        "PAYLOAD": dashboard.payload,
    }
    constants = "".join(f"const {name} = {_script_literal(value)};\n" for name, value in values.items())
    return (
        f'<div id="{identity}" class="gpuviz">{fallback_html(trace)}</div>\n'
        f"<style>{library.engine_style()}</style>\n"
        f"<script>{{\n{constants}{_BOOTSTRAP};\n}}</script>"
    )


def document_html(trace: Trace) -> str:
    """A whole offline page."""
    title = escaped(f"{trace.meta.title}{' (modelled)' if trace.meta.modelled else ''} · gpuviz")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n"
        "<style>:root{color-scheme:light dark}body{margin:16px;background:#fff}"
        "@media(prefers-color-scheme:dark){body{background:#111}}</style>\n"
        f"</head>\n<body>\n{output_html(trace)}\n</body>\n</html>\n"
    )


def save_html(trace: Trace, path: str | PathLike[str]) -> Path:
    """Write one self-contained offline page; `TraceFileError` when it cannot be written, and then nothing is."""
    document = document_html(trace)
    with replacing(path) as file:
        file.write(document.encode("utf-8"))
    return Path(path)


def _script_literal(value: object) -> str:
    """JSON that may stand inside a script element: no text can end the element or open a comment."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
