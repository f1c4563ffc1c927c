import { currentLanguage, t } from "./i18n.js";
import { number } from "./format.js";
import { html, uniqueId, useMemo, useRef, useState } from "./html.js";
import { Button } from "./controls.js";

/** A page's beginning: its h1, a sentence about it, and its actions. @param {{title: unknown, lead?: unknown, children?: unknown}} props */
export const PageHead = ({ title, lead, children }) => html`<header class="page-head">
  <div><h1 tabindex="-1">${title}</h1>${lead && html`<p class="lead">${lead}</p>`}</div>
  ${children && html`<div class="page-actions">${children}</div>`}
</header>`;

/** A part of a page with a heading. @param {{title?: unknown, aside?: unknown, class?: string, children?: unknown}} props */
export function Card({ title, aside, class: name = "", children, ...rest }) {
  const [id] = useState(() => uniqueId("card"));
  return html`<section ...${rest} class="card ${name}" aria-labelledby=${title ? id : undefined}>
    ${title && html`<header class="card-head"><h2 id=${id}>${title}</h2>${aside && html`<div class="card-aside">${aside}</div>`}</header>`}
    ${children}</section>`;
}

/** Where there is nothing yet: what would be here, and how it comes about. @param {{title: string, children?: unknown}} props */
export const Empty = ({ title, children }) => html`<div class="empty"><p class="empty-title">${title}</p>${children}</div>`;

/** Names and values. @param {{items: [string, unknown][]}} props entries that are null or false are left out */
export const Facts = ({ items }) => html`<dl class="facts">${items.filter(Boolean).map(([name, value]) =>
  html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/**
 * Rows; cards at phone width. Only the rows that are given are rendered: give one page of them.
 * @param {{caption: string, columns: {key: string, label: string, render: (row: object) => unknown, class?: string}[],
 *   rows: object[], rowId?: (row: object) => string, rowKey?: (row: object) => string, empty?: unknown, shown?: unknown[]}} props
 * the caption is for screen readers; the first column heads its row; `rowKey` is for rows whose ids alone are not unique;
 * with `shown`, which is all that the columns show beside the row itself, a row is drawn anew only where it is another one
 */
export function Table({ caption, columns, rows, rowId = (row) => row.id, rowKey = rowId, empty, shown }) {
  if (!rows.length && empty) return empty;
  return html`<table role="table" class="table"><caption class="sr-only">${caption}</caption>
    <thead role="rowgroup"><tr role="row">${columns.map((each) => html`<th role="columnheader" scope="col" class=${each.class ?? ""}>${each.label}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map((row) => html`<${Row} key=${rowKey(row)} id=${rowId(row)} row=${row} columns=${columns} shown=${shown} />`)}</tbody>
  </table>`;
}

function Row({ id, row, columns, shown }) {
  return useMemo(() => html`<tr role="row" data-id=${id}>${columns.map((each, i) => (i === 0
    ? html`<th role="rowheader" scope="row" class=${each.class ?? ""}>${each.render(row)}</th>`
    : html`<td role="cell" class=${each.class ?? ""} data-label=${each.label}><div>${each.render(row)}</div></td>`))}</tr>`,
  shown ? [row, currentLanguage(), ...shown] : [row, columns]);
}

/**
 * Forwards and backwards through pages of rows.
 * @param {{offset: number, limit: number, total: number, onChange: (offset: number) => void}} props
 */
export function Pager({ offset, limit, total, onChange }) {
  if (total <= limit && offset === 0) return null;
  const range = { from: number(Math.min(offset + 1, total)), to: number(Math.min(offset + limit, total)), total: number(total) };
  return html`<nav class="pager" aria-label=${t("pager.label")}>
    <${Button} small disabled=${offset === 0} onClick=${() => onChange(Math.max(0, offset - limit))}>${t("pager.back")}</${Button}>
    <span role="status">${t("pager.range", range)}</span>
    <${Button} small disabled=${offset + limit >= total} onClick=${() => onChange(offset + limit)}>${t("pager.next")}</${Button}>
  </nav>`;
}

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/**
 * One of several panels; arrow keys go from tab to tab.
 * @param {{label: string, tabs: {id: string, label: string, render: () => unknown}[], selected: string,
 *   onSelect: (id: string) => void}} props
 */
export function Tabs({ label, tabs, selected, onSelect }) {
  const list = useRef(null);
  const [prefix] = useState(() => uniqueId("tabs"));
  const current = Math.max(0, tabs.findIndex((tab) => tab.id === selected));
  const onKeyDown = (event) => {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Number.isFinite(step) ? (current + step + tabs.length) % tabs.length : step < 0 ? 0 : tabs.length - 1;
    onSelect(tabs[next].id);
    list.current.children[next].focus();
  };
  return html`<div class="tabs">
    <div role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKeyDown}>${tabs.map((tab, i) => html`
      <button type="button" role="tab" key=${tab.id} id="${prefix}-${tab.id}" aria-selected=${i === current ? "true" : "false"}
        aria-controls="${prefix}-panel" tabindex=${i === current ? 0 : -1} onClick=${() => onSelect(tab.id)}>${tab.label}</button>`)}</div>
    <div role="tabpanel" id="${prefix}-panel" aria-labelledby="${prefix}-${tabs[current].id}" tabindex="0" key=${tabs[current].id}>
      ${tabs[current].render()}</div>
  </div>`;
}
