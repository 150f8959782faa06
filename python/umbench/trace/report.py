"""A page about a trace: the output of umbench explain, and heat maps by allocation and block over time."""

import base64
from html import escape
from pathlib import Path

from umbench import load, output
from umbench.plots.common import save, use_style
from umbench.trace import explain, heat
from umbench.trace.files import read_trace

FIGURE_FORMATS = ("png", "svg", "pdf")
SECURITY_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = ("body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; } "
         "pre { white-space: pre-wrap; background: #f2f6fa; padding: .6rem 1.2rem; } img { width: 100%; }")


def write_page(trace_files, folder):
    """Writes index.html, and the figures of each process in which something moved."""
    use_style()
    folder = Path(folder)
    sections = []
    for path in trace_files:
        processes = read_trace(path)
        for process in processes:
            figure_name = f"heat_{Path(path).stem}" + (f"_{process.environment.get('process')}" if len(processes) > 1 else "")
            sections.append(_section_of_process(path, process, folder, figure_name))
    page_html = ("<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
                 f"<meta http-equiv='Content-Security-Policy' content=\"{SECURITY_POLICY}\"><title>Unified Memory in a program</title>"
                 f"<style>{STYLE}</style></head>\n<body>\n<h1>Unified Memory in a program</h1>\n"
                 + "\n".join(sections) + "\n</body></html>\n")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise load.BadInput(f"--out {folder}: {error.strerror}") from error
    output.write(page_html, folder / "index.html")
    print(folder / "index.html")


def _section_of_process(trace_file, process, folder, figure_name):
    lines = explain.as_lines(process, *explain.explain(process))
    drawing = heat.figure(process)
    figure_html = ""
    if drawing is not None:
        save(drawing, folder, figure_name, FIGURE_FORMATS)
        png_base64 = base64.b64encode((folder / f"{figure_name}.png").read_bytes()).decode()
        figure_html = f"<figure><img alt='Heat of allocations over time' src='data:image/png;base64,{png_base64}'></figure>"
    return (f"<section><h2>{escape(str(trace_file))}, process {process.environment.get('process')}</h2>"
            f"<pre>{escape(chr(10).join(lines))}</pre>{figure_html}</section>")
