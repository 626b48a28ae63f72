"""An HTML page that is one file: its style is in it, and it loads nothing. Light, dark, paper, telephone."""

import re
from collections.abc import Sequence

from twofold.report.markup import Markup, joined, tag

# Points of a picture that stands alone, for each of its own.
ENLARGED = 1.4
# What a picture needs, also where it stands alone.
PICTURE = """
:root { color-scheme: light dark; --paper: #fbfbf9; --card: #fff; --ink: #1d2330; --quiet: #5d6675; --rule: #dfe2e8;
  --arm0: #2459d6; --arm1: #c2570c; --arm2: #1a7f4b; --arm3: #8436c7; --arm4: #b3246b; --arm5: #0b7285;
  --arm6: #7a5b10; --arm7: #5d6675; --heat: #2459d6; --good: #1a7f4b; --bad: #b42318; --wash: #eef2fc; }
@media (prefers-color-scheme: dark) { :root { --paper: #12151b; --card: #1a1f28; --ink: #e7eaf0; --quiet: #9aa4b5;
  --rule: #2f3643; --arm0: #82a8ff; --arm1: #f5a35c; --arm2: #5fcf95; --arm3: #c79bf2; --arm4: #f08cbb;
  --arm5: #66c7da; --arm6: #d8b65c; --arm7: #9aa4b5; --heat: #82a8ff; --good: #5fcf95; --bad: #ff8a7a;
  --wash: #1e2636; } }
.arm0 { --tone: var(--arm0); } .arm1 { --tone: var(--arm1); } .arm2 { --tone: var(--arm2); }
.arm3 { --tone: var(--arm3); } .arm4 { --tone: var(--arm4); } .arm5 { --tone: var(--arm5); }
.arm6 { --tone: var(--arm6); } .arm7 { --tone: var(--arm7); }
svg { display: block; width: 100%; max-width: 32rem; height: auto; margin: 0 auto;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
svg text { font-size: 11px; fill: var(--quiet); font-variant-numeric: tabular-nums; }
svg .middle { text-anchor: middle; } svg .end { text-anchor: end; } svg .label { font-size: 12px; }
svg .inside { fill: var(--ink); font-weight: 600; } svg .strong { fill: var(--card); }
svg line.grid { stroke: var(--rule); } svg line.mark { stroke: var(--quiet); stroke-dasharray: 4 4; stroke-width: 1.5; }
.line { fill: none; stroke: var(--tone); stroke-width: 2.2; stroke-linejoin: round; }
.line.arm1 { stroke-dasharray: 6 3; } .line.arm2 { stroke-dasharray: 2 3; } .line.arm3 { stroke-dasharray: 9 3 2 3; }
.line.arm5 { stroke-dasharray: 6 3; } .line.arm6 { stroke-dasharray: 2 3; } .line.arm7 { stroke-dasharray: 9 3 2 3; }
.line.again { stroke-dasharray: 16 5; stroke-width: 1.6; }
.band, .faint { fill: var(--tone); fill-opacity: .16; } .faint { fill-opacity: .55; }
.reach { stroke: var(--tone); stroke-width: 2.4; } svg .named { fill: var(--ink); font-weight: 600; }
.dot, .bar { fill: var(--tone); } .spot { fill: var(--ink); stroke: var(--card); }
.bar.arm1 { fill-opacity: .75; }
.cell { fill: var(--heat); fill-opacity: calc(.06 + .94 * var(--shade)); }
"""
STYLE = (
    PICTURE
    + """* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main, header > div, footer { max-width: 70rem; margin: 0 auto; padding: 0 1.25rem; }
header > div { overflow-wrap: anywhere; }
header { border-bottom: 1px solid var(--rule); background: var(--card); padding: 2.2rem 0 1.8rem; }
h1 { font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.2; margin: 0 0 .8rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; margin: 2.8rem 0 .3rem; letter-spacing: -.005em; }
h3 { font-size: .95rem; margin: 0 0 .5rem; }
p { margin: .4rem 0 1rem; max-width: 46rem; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .88em; }
pre { background: var(--wash); padding: .9rem 1rem; border-radius: .5rem; overflow-x: auto; line-height: 1.5; }
.eyebrow { color: var(--quiet); font-size: .85rem; margin: 0 0 .4rem; }
.verdict { font-size: 1.12rem; max-width: 50rem; margin: 0; }
.quiet { color: var(--quiet); font-size: .92rem; }
.grid { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
.pairs { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.grid + *, .card + .pairs, .card + .grid { margin-top: 1rem; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: .7rem; padding: 1rem; min-width: 0; }
figure { margin: 0; }
.big { font-size: 2.3rem; font-weight: 650; line-height: 1.1; font-variant-numeric: tabular-nums; }
.name { color: var(--tone); font-weight: 650; }
.key { display: inline-block; width: 1.6rem; border-top: 3px solid var(--tone); vertical-align: middle;
  margin-right: .4rem; }
.key.arm1 { border-top-style: dashed; } .key.again { border-top-style: dotted; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; margin: .4rem 0 .8rem; font-size: .92rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { text-align: right; padding: .45rem .7em; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { font-weight: 650; } tbody th { font-weight: 400; } tr:last-child > * { border-bottom: 0; }
.words td, .words th { text-align: left; }
.small { display: block; color: var(--quiet); font-size: .85rem; }
.numbers { font-size: .86rem; } .numbers td { white-space: nowrap; }
.departed { margin: 1rem 0 .3rem; font-weight: 650; color: var(--bad); } header ul { margin: 0; padding-left: 1.2rem; }
.verdict + .verdict { margin-top: .7rem; } header .quiet { margin: 1rem 0 0; } header li { max-width: 60rem; }
.word { font-weight: 650; } .word.good { color: var(--good); } .word.bad { color: var(--bad); }
.utterance { font-size: 1.08rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
mark { background: var(--wash); color: inherit; border-bottom: 2px solid var(--arm0); border-radius: .2rem;
  padding: .05rem .15rem; }
mark small { color: var(--quiet); margin-left: .3rem; }
.goal { font-weight: 650; } .action { overflow-wrap: anywhere; }
.meter { height: .35rem; border-radius: 1rem; background: var(--rule); overflow: hidden; margin: .5rem 0; }
.meter > span { display: block; height: 100%; background: var(--arm0); }
.strip { display: grid; gap: 1rem; grid-template-columns: repeat(4, 1fr); }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--quiet); padding: .3rem 0; }
footer { padding-top: 2.5rem; padding-bottom: 3rem; color: var(--quiet); font-size: .88rem;
  overflow-wrap: anywhere; }
@media (max-width: 56rem) { .strip { grid-template-columns: none; grid-auto-flow: column; grid-auto-columns: 82%;
  overflow-x: auto; scroll-snap-type: x mandatory; padding-bottom: .5rem; } .strip > * { scroll-snap-align: start; } }
.words td:nth-child(3) { min-width: 14rem; }
@media (max-width: 36rem) {
  .stack tr { display: grid; grid-template-columns: repeat(3, 1fr); padding: .45rem 0; }
  .stack tr + tr { border-top: 1px solid var(--rule); } .stack tr > * { border: 0; padding: .1rem 0; }
  .stack tr > :first-child { grid-column: 1 / -1; } .stack thead tr > :first-child { display: none; } }
@media print { .card, svg { break-inside: avoid; } }
"""
)


def page(title: str, *body: str) -> str:
    """A whole HTML file."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Nothing is fetched and no script runs, whatever a text says.
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def alone(picture: str) -> str:
    """A picture as a file of its own, with the page's colours and a size, or it would fill whatever shows it."""
    head, _, rest = picture.partition(">")
    width, height = (ENLARGED * float(one) for one in re.findall(r'viewBox="0 0 (\S+) (\S+)"', head)[0])
    size = f'width="{width:.0f}" height="{height:.0f}"'
    head = head.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" {size}', 1)
    return f"{head}>{tag('style', Markup(PICTURE))}{rest}\n"


def section(title: str, about: str, *inside: str) -> Markup:
    return tag("section", tag("h2", title), tag("p", about, class_="quiet"), *inside)


def card(title: str, *inside: str) -> Markup:
    """A picture or a few lines, with a heading."""
    return tag("figure", tag("h3", title), *inside, class_="card")


def grid(*cards: str) -> Markup:
    """As many beside each other as there is room for."""
    return tag("div", *cards, class_="grid")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], class_: str | None = None) -> Markup:
    """Rows of texts or markup; the first cell of each is its heading."""
    top = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads)))
    body = joined(*(tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows))
    return tag("div", tag("table", top, tag("tbody", body), class_=class_), class_="card wide")
