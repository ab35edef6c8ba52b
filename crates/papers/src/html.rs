//! A report as one page: style and plots are in it, so that it needs no network and no script.

use crate::inventory::Item;
use crate::report::{Assumption, Beyond, Cell, Claim, Report, Table, Verdict, compact};
use crate::svg::{self, escape};
use std::fmt::Write as _;

/// The page of one report.
pub(crate) fn page(report: &Report) -> String {
    let mut out = head(&format!("{}: {}", report.paper, report.title));
    let _ = write!(out, "<h1>{}</h1>", escape(report.title));
    if let Some(source) = &report.source {
        let _ = write!(out, "<p class=\"caption\">{}</p>", escape(&source.citation()));
    }
    let _ = write!(out, "<p class=\"caption\">{}</p>", escape(&caption(report)));
    let _ = write!(out, "<p>{}</p>", escape(&format!("Claims: {}.", report.counts.words())));
    claims(&mut out, &report.claims);
    beyond(&mut out, &report.beyond);
    if !report.notes.is_empty() {
        out += "<h2>What was found</h2><ul>";
        report.notes.iter().for_each(|note| {
            let _ = write!(out, "<li>{}</li>", escape(note));
        });
        out += "</ul>";
    }
    if !report.figures.is_empty() {
        out += "<h2>Figures</h2>";
    }
    for figure in &report.figures {
        let svg = svg::render(figure, &caption(report), false);
        let words = escape(&figure.caption);
        let _ = write!(out, "<figure>{svg}<figcaption>{words}</figcaption></figure>");
    }
    cells(&mut out, report);
    report.tables.iter().for_each(|t| table(&mut out, t));
    assumptions(&mut out, &report.assumptions);
    items(&mut out, &report.items);
    out + "</main></body></html>\n"
}

/// The page that leads to those of several reports.
pub(crate) fn index(reports: &[&Report]) -> String {
    let mut out = head("Papers repeated with tabane");
    out += "<h1>Papers repeated with tabane</h1>";
    for report in reports {
        let name = escape(report.paper);
        let title = escape(report.title);
        let _ = write!(out, "<h2><a href=\"{name}/report.html\">{name}: {title}</a></h2>");
        let _ = write!(out, "<p class=\"caption\">{}</p>", escape(&caption(report)));
        claims(&mut out, &report.claims);
        beyond(&mut out, &report.beyond);
    }
    out + "</main></body></html>\n"
}

/// What it was measured with.
pub(crate) fn caption(report: &Report) -> String {
    let seeds: Vec<String> = report.seeds.iter().map(u64::to_string).collect();
    let length = if report.quick { "quick" } else { "full" };
    let took = report.run_s.map_or_else(String::new, |s| format!(" · {s:.1} s"));
    format!(
        "paper {} ({}) · tabane {} · {length} · seed {}{took}",
        report.paper,
        report.alias.to_uppercase(),
        report.version,
        seeds.join(", ")
    )
}

/// The beginning of a page in the style of reports, up to its content, which ends with
/// `</main></body></html>`.
#[must_use]
pub fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>{}</title><style>{STYLE}</style></head><body><main>",
        escape(title)
    )
}

fn claims(out: &mut String, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    *out += "<h2>Claims</h2><table><thead><tr><th>claim</th><th class=\"n\">paper</th>\
             <th class=\"n\">ours</th><th>verdict</th></tr></thead><tbody>";
    for claim in claims {
        let (paper, ours) = (claim.paper.words(&claim.unit), claim.ours.words(&claim.unit));
        row(out, (&claim.text, &paper, &ours), &claim.verdict, &claim.verdict.words());
    }
    *out += "</tbody></table>";
}

fn beyond(out: &mut String, targets: &[Beyond]) {
    if targets.is_empty() {
        return;
    }
    *out += "<h2>Beyond the paper</h2><table><thead><tr><th>target</th><th class=\"n\">bound</th>\
             <th class=\"n\">ours</th><th>verdict</th></tr></thead><tbody>";
    for target in targets {
        let with_unit = |value: f64| format!("{} {}", compact(value), target.unit);
        let (bound, ours) = (with_unit(target.bound), with_unit(target.ours));
        let words = format!("{} (ratio {})", target.verdict.target_words(), compact(target.ratio));
        row(out, (&target.text, &bound, &ours), &target.verdict, &words);
    }
    *out += "</tbody></table>";
}

fn row(out: &mut String, (text, left, right): (&str, &str, &str), verdict: &Verdict, words: &str) {
    let class = match verdict {
        Verdict::Reproduced => "yes",
        Verdict::Fitted(_) | Verdict::Partly(_) => "partly",
        Verdict::Not(_) | Verdict::Unknown(_) => "no",
    };
    let _ = write!(
        out,
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"{class}\">{}</td></tr>",
        escape(text),
        escape(left.trim_end()),
        escape(right.trim_end()),
        escape(words)
    );
}

/// One table for each of the paper's: its value above ours, or ours alone where it has none.
fn cells(out: &mut String, report: &Report) {
    if !report.cells.is_empty() {
        *out += "<h2>Tables</h2>";
    }
    for name in report.table_names() {
        let of: Vec<&Cell> = report.cells.iter().filter(|cell| cell.table == name).collect();
        let unit = of.first().map_or("", |cell| cell.unit);
        let published = of.iter().any(|cell| cell.paper.is_some());
        let (rows, columns) = (unique(&of, |cell| &cell.row), unique(&of, |cell| &cell.column));
        let _ = write!(out, "<h3>{} ({})</h3>", escape(name), escape(unit));
        *out += "<table class=\"cells\"><thead><tr><th></th>";
        columns.iter().for_each(|c| {
            let _ = write!(out, "<th class=\"n\">{}</th>", escape(c));
        });
        *out += "</tr></thead><tbody>";
        for row in rows {
            let _ = write!(out, "<tr><th>{}</th>", escape(row));
            for column in &columns {
                let cell = of.iter().find(|cell| cell.row == row && cell.column == *column);
                *out += &cell.map_or_else(|| "<td></td>".to_owned(), |cell| field(cell));
            }
            *out += "</tr>";
        }
        *out += "</tbody></table>";
        if published {
            let _ = write!(out, "<p class=\"caption\">{}</p>", escape(&errors(report, name)));
        }
    }
}

fn field(cell: &Cell) -> String {
    let paper = cell.paper.map_or_else(String::new, |paper| {
        format!("<span class=\"paper\">{}</span><br/>", compact(paper))
    });
    format!("<td class=\"n\">{paper}{}</td>", compact(cell.ours))
}

fn errors(report: &Report, table: &str) -> String {
    let Some(error) = report.errors.iter().find(|error| error.table == table) else {
        return String::new();
    };
    let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let mape = error.mape.map_or_else(|| "none".to_owned(), percent);
    let rank = error.spearman.map_or_else(|| "undefined".to_owned(), |r| format!("{r:.3}"));
    format!(
        "The paper's value above ours, {} cells: mean absolute percentage error {mape}, \
         Spearman's rank correlation {rank}.",
        error.cells
    )
}

fn unique<'a>(cells: &[&'a Cell], of: impl Fn(&'a Cell) -> &'a String) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in cells {
        let name = of(cell);
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn table(out: &mut String, table: &Table) {
    let _ = write!(out, "<h3>{}</h3><table><thead><tr>", escape(&table.title));
    table.head.iter().for_each(|name| {
        let _ = write!(out, "<th>{}</th>", escape(name));
    });
    *out += "</tr></thead><tbody>";
    for row in &table.rows {
        *out += "<tr>";
        row.iter().for_each(|text| {
            let _ = write!(out, "<td>{}</td>", escape(text));
        });
        *out += "</tr>";
    }
    let _ = write!(out, "</tbody></table><p class=\"caption\">{}</p>", escape(&table.caption));
}

fn assumptions(out: &mut String, all: &[Assumption]) {
    if all.is_empty() {
        return;
    }
    *out += "<h2>Assumed</h2><table><thead><tr><th>what</th><th>value</th><th>why</th></tr>\
             </thead><tbody>";
    for one in all {
        let mark = if one.calibrated { " <strong>calibrated</strong>" } else { "" };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}{mark}</td><td>{}</td></tr>",
            escape(&one.what),
            escape(&one.value),
            escape(&one.why)
        );
    }
    *out += "</tbody></table>";
}

fn items(out: &mut String, all: &[Item]) {
    if all.is_empty() {
        return;
    }
    *out += "<h2>What the paper has, and where it is here</h2><table><thead><tr><th>item</th>\
             <th>kind</th><th>what</th><th>where</th></tr></thead><tbody>";
    for Item { item, kind, what, places } in all {
        let [item, kind, what, places] = [item, kind, what, &places.join("; ")].map(|t| escape(t));
        let _ =
            write!(out, "<tr><td>{item}</td><td>{kind}</td><td>{what}</td><td>{places}</td></tr>");
    }
    *out += "</tbody></table>";
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#222;--muted:#666;--line:#ddd;--yes:#00724f;\
--no:#a3400a;--link:#0072b2}\
@media (prefers-color-scheme:dark){:root{--ground:#16181c;--ink:#e6e6e6;--muted:#a0a4aa;\
--line:#3a3e45;--yes:#4cc9a0;--no:#ff9d5c;--link:#6db8e8}}\
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
main{max-width:62rem;margin:0 auto;padding:1.5rem}\
h1{font-size:1.6rem;line-height:1.25}h2{margin-top:2.2rem;font-size:1.25rem}h3{font-size:1.05rem}\
a{color:var(--link)}.caption,figcaption{color:var(--muted);font-size:.9rem}\
table{border-collapse:collapse;width:100%;font-size:.92rem}\
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:left;\
vertical-align:top}\
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
.cells{width:auto}.paper{color:var(--muted)}\
.yes{color:var(--yes)}.no,.partly{color:var(--no)}\
figure{margin:1.5rem 0}svg{width:100%;height:auto}\
svg .ink{fill:var(--ink)}svg .muted{fill:var(--muted)}svg .grid{stroke:var(--line)}\
svg .axis{stroke:var(--muted)}\
@media print{:root{--ground:#fff;--ink:#000;--muted:#444;--line:#bbb;--yes:#00563b;--no:#7a2f06}\
main{max-width:none;padding:0}figure,table{break-inside:avoid}h2,h3{break-after:avoid}}";
