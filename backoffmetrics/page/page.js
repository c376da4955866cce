"use strict";

const every = 2000; // ms
const $ = (id) => document.getElementById(id);
const drawn = new Map(); // articles, by the name of their operation
let timer = 0;
let paused = false;
let answered = null; // when the last answer came

// Names may come from strangers, so they are only set as text.
function element(tag, text, className) {
	const e = document.createElement(tag);
	if (text !== undefined) e.textContent = text;
	if (className) e.className = className;
	return e;
}

function rect(x, y, width, height, className) {
	const r = document.createElementNS("http://www.w3.org/2000/svg", "rect");
	const at = { x, y, width, height };
	for (const name in at) r.setAttribute(name, at[name].toFixed(2));
	r.setAttribute("class", className);
	return r;
}

function setText(e, text) {
	if (e.textContent !== text) e.textContent = text;
}

function number(n) {
	if (n >= 1e6) return (n / 1e6).toFixed(1) + " M";
	if (n >= 1e4) return (n / 1e3).toFixed(1) + " k";
	if (n >= 100 || Number.isInteger(n)) return n.toFixed(0);
	return n >= 10 ? n.toFixed(1) : n.toFixed(2);
}

function plural(n, what) {
	return `${number(n)} ${what}${n === 1 ? "" : "s"}`;
}

function percent(part, whole) {
	if (!whole) return "–";
	const p = 100 * part / whole;
	if (part > 0 && p < 0.1) return "< 0.1 %";
	if (part < whole && p > 99.9) return "> 99.9 %";
	return (p < 10 || p > 99 ? p.toFixed(1).replace(/\.0$/, "") : p.toFixed(0)) + " %";
}

function duration(seconds) {
	if (seconds < 1) return Math.round(seconds * 1000) + " ms";
	if (seconds < 90) return (seconds < 10 ? +seconds.toFixed(1) : Math.round(seconds)) + " s";
	if (seconds < 5400) return Math.round(seconds / 60) + " min";
	return seconds < 172800 ? Math.round(seconds / 3600) + " h" : Math.round(seconds / 86400) + " d";
}

function figure(article, name, value, unit) {
	const dd = article.querySelector(`[data-figure="${name}"]`);
	dd.replaceChildren(value);
	if (unit) dd.append(element("small", unit));
}

function drawFigures(article, o) {
	const per = (n) => o.now.seconds > 0 ? number(n / o.now.seconds) : "0";
	const unit = o.now.seconds > 20 ? "/s, avg. " + duration(o.now.seconds) : "/s";
	figure(article, "calls", per(o.now.calls), unit);
	figure(article, "attempts", per(o.now.attempts), unit);
	figure(article, "amplification", o.lately.calls ? o.lately.amplification.toFixed(2) : "–");
	figure(article, "refused", number(o.lately.refused));
}

function drawSplit(article, o) {
	const words = { first: "at once", retried: "after retries", failed: "failed" };
	const parts = [];
	for (const part in words) {
		const share = percent(o.lately[part], o.lately.calls);
		setText(article.querySelector(`[data-share="${part}"]`), share);
		const bar = article.querySelector(`.split .${part}`);
		bar.style.flexGrow = o.lately[part];
		bar.hidden = o.lately[part] === 0;
		parts.push(words[part] + " " + share);
	}
	article.querySelector(".split").setAttribute("aria-label", "Calls: " + parts.join(", "));
}

// The load has a bar per column: calls below, and on top of them what retries
// and hedges add.
function drawLoad(article, o) {
	const svg = article.querySelector(".load");
	const { calls, attempts, step } = o.history;
	const peak = Math.max(0, ...attempts, ...calls);
	const width = 600 / calls.length;
	const bars = [];
	calls.forEach((c, i) => {
		if (c < 0 || peak === 0) return;
		const low = 140 * Math.min(c, attempts[i]) / peak;
		const high = 140 * attempts[i] / peak;
		if (low > 0) bars.push(rect(i * width, 140 - low, width - 1.5, low, "calls"));
		if (high > low) bars.push(rect(i * width, 140 - high, width - 1.5, high - low, "extra"));
	});
	svg.replaceChildren(...bars);
	const whole = duration(calls.length * step);
	svg.setAttribute("aria-label", `Attempts per second over the last ${whole}: at most ${number(peak)}`);
	setText(article.querySelector(".span"), "last " + whole);
	setText(article.querySelector('[data-axis="left"]'), `−${whole}`);
	const known = calls.some((c) => c >= 0);
	setText(article.querySelector('[data-axis="peak"]'), known ? `peak ${number(peak)} attempts/s` : "begins in a few seconds");
}

// The delays show the share of each bucket, for the scheduled delays and for the
// time slept.
function drawDelays(article, o, bounds) {
	const svg = article.querySelector(".delays");
	const used = o.delay.map((n, i) => n + o.slept[i] > 0 ? i : -1).filter((i) => i >= 0);
	const axis = article.querySelector('[data-axis="delays"]');
	if (used.length === 0) {
		svg.replaceChildren();
		svg.setAttribute("aria-label", "No delays yet");
		axis.replaceChildren(element("span", "no delays yet"));
		return;
	}
	const from = Math.max(0, used[0] - 1), to = Math.min(bounds.length, used[used.length - 1] + 1);
	const share = (counts) => {
		const all = counts.reduce((a, b) => a + b, 0) || 1;
		return counts.slice(from, to + 1).map((n) => n / all);
	};
	const scheduled = share(o.delay), slept = share(o.slept);
	const peak = Math.max(...scheduled, ...slept);
	const width = 600 / scheduled.length, top = 136;
	const bars = [];
	scheduled.forEach((_, i) => {
		const a = top * slept[i] / peak, b = top * scheduled[i] / peak;
		if (a > 0) bars.push(rect(i * width + 4, 140 - a, width - 8, a, "slept"));
		if (b > 0) bars.push(rect(i * width + 2, 140 - b, width - 4, b + 3, "scheduled"));
	});
	svg.replaceChildren(...bars);
	const labels = scheduled.map((_, i) => from + i < bounds.length ? duration(bounds[from + i]) : "more");
	svg.setAttribute("aria-label", "Delays up to: " + labels.map((l, i) =>
		`${l}: scheduled ${percent(scheduled[i], 1)}, slept ${percent(slept[i], 1)}`).join("; "));
	const sparse = Math.ceil(labels.length / 6);
	axis.replaceChildren(...labels.map((l, i) => element("span", (labels.length - 1 - i) % sparse ? "" : l)));
}

function table(title, rows) {
	const t = element("table");
	t.append(element("caption", title));
	const body = element("tbody");
	for (const [name, value] of rows) {
		const row = element("tr");
		const head = element("th", name);
		head.scope = "row";
		row.append(head, element("td", value));
		body.append(row);
	}
	t.append(body);
	return t;
}

function drawTables(article, o) {
	if (!article.querySelector("details").open) return;
	const tables = [table("Calls", [
		["calls", number(o.calls)], ["at once", number(o.first)], ["after retries", number(o.retried)],
		["failed", number(o.failed)], ["attempts", number(o.attempts)], ["attempts per call", o.amplification.toFixed(2)],
		["hedges won", number(o.hedges_won)], ["hedges lost", number(o.hedges_lost)], ["reconnects", number(o.reconnects)],
	])];
	const maps = { "Calls failed, by reason": o.failures, "Attempts failed, by class": o.failed_attempts_by_class,
		"Retries, by class": o.retries_by_class, "Refused by the budget": o.refusals };
	for (const title in maps) {
		const rows = Object.entries(maps[title]).map(([name, n]) => [name, number(n)]);
		if (rows.length) tables.push(table(title, rows));
	}
	article.querySelector(".tables").replaceChildren(...tables);
}

function articleOf(name) {
	let article = drawn.get(name);
	if (!article) {
		article = $("operation").content.cloneNode(true).querySelector("article");
		article.querySelector(".name").textContent = name;
		article.setAttribute("aria-label", name);
		article.querySelector("details").addEventListener("toggle", () => article.last && drawTables(article, article.last));
		drawn.set(name, article);
	}
	return article;
}

function drawOperations(report) {
	const list = $("operations");
	report.operations.forEach((o, i) => {
		const article = articleOf(o.name);
		article.last = o;
		article.className = o.diagnosis.level;
		setText(article.querySelector(".diagnosis"), o.diagnosis.text);
		drawFigures(article, o);
		drawSplit(article, o);
		drawLoad(article, o);
		drawDelays(article, o, report.delay_bounds_seconds);
		drawTables(article, o);
		if (list.children[i] !== article) list.insertBefore(article, list.children[i] || null);
	});
	$("empty").hidden = report.operations.length > 0;
}

function drawBreakers(all) {
	$("breakers").replaceChildren(...all.map((b) => {
		const li = element("li");
		const refused = b.refused ? `, ${plural(b.refused, "call")} refused` : "";
		const when = b.trigger ? `for ${duration(b.since)}, by ${b.trigger}; ` : "";
		li.append(element("span", b.name), element("b", b.state, b.state),
			element("span", `${when}${plural(b.changes, "change")}${refused}`, "what"));
		return li;
	}));
	$("breakers-part").hidden = all.length === 0;
}

function drawBudgets(all) {
	$("budgets").replaceChildren(...all.map((b) => {
		const li = element("li");
		const left = Math.max(0, b.allowed - b.retries);
		const meter = element("meter");
		Object.assign(meter, { min: 0, max: Math.max(1, b.allowed), low: b.allowed * 0.25, high: b.allowed * 0.5, optimum: Math.max(1, b.allowed), value: left });
		meter.setAttribute("aria-label", `${b.name}: ${left} of ${b.allowed} retries left`);
		const paid = b.successes ? `${number(b.retries)} used, on ${number(b.successes)} success${b.successes === 1 ? "" : "es"} within its window` : "no success within its window to pay for retries";
		li.append(element("span", b.name), element("b", b.allowed ? `${left} of ${b.allowed} left` : "none"), meter, element("span", paid, "what"));
		return li;
	}));
	$("budgets-part").hidden = all.length === 0;
}

function drawKeys(all) {
	$("keys").replaceChildren(...all.map((k) => {
		const li = element("li");
		li.append(element("span", k.name), element("b", plural(k.evictions, "key")), element("span", "forgotten for others", "what"));
		return li;
	}));
	$("keys-part").hidden = all.length === 0;
}

// The conclusion is drawn only when it changes, since screen readers read it
// aloud then.
function drawConclusion({ level, sentences }) {
	const title = (level === "good" ? "" : "● ") + "backoff: " + sentences.join(" ");
	if (document.title === title) return;
	document.title = title;
	$("conclusion").replaceChildren(...sentences.map((s) => element("span", s)));
}

function draw(report) {
	drawConclusion(report.conclusion);
	drawBreakers(report.breakers);
	drawBudgets(report.budgets);
	drawKeys(report.keys);
	$("guards").hidden = report.breakers.length + report.budgets.length + report.keys.length === 0;
	drawOperations(report);
}

// The time changes every two seconds, so screen readers should not read it
// aloud. They should when it stands still.
function showStatus(stale) {
	if (stale) $("status").setAttribute("role", "alert");
	else $("status").removeAttribute("role");
	document.querySelector(".status").classList.toggle("stale", stale);
	const at = answered ? answered.toLocaleTimeString() : "";
	setText($("status"), stale ? (at ? "No answer since " + at : "No answer") : (paused ? "Paused at " : "Live, ") + at);
}

async function poll() {
	try {
		const response = await fetch("data", { cache: "no-store", signal: AbortSignal.timeout(5000) });
		if (!response.ok) throw new Error(response.statusText);
		draw(await response.json());
		answered = new Date();
		showStatus(false);
	} catch {
		showStatus(true);
	}
	plan();
}

function plan() {
	clearTimeout(timer);
	if (!paused && !document.hidden) timer = setTimeout(poll, every);
}

$("pause").addEventListener("click", () => {
	paused = !paused;
	$("pause").setAttribute("aria-pressed", String(paused));
	setText($("pause"), paused ? "Resume" : "Pause");
	showStatus(false);
	plan();
});
document.addEventListener("visibilitychange", plan);
poll();
