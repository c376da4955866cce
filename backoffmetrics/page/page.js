"use strict";

const every = 2000; // ms
const timeout = 5000; // ms
const $ = (id) => document.getElementById(id);
const drawn = new Map(); // articles, by their operation and endpoint
let timer = 0;
let paused = false;
let updated = null; // when the last response came
let linked = location.hash.slice(1); // the card that the address asks for
const processes = new Set(); // that have responded
let shownProcess = null; // the last of them
let problem = ""; // why there is no response now

// Names may come from untrusted clients, so they are only set as text.
function element(tag, text, className) {
	const e = document.createElement(tag);
	if (text !== undefined) e.textContent = text;
	if (className) e.className = className;
	return e;
}

function shape(tag, at, className) {
	const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
	for (const name in at) e.setAttribute(name, at[name].toFixed(2));
	e.setAttribute("class", className);
	return e;
}

function setText(e, text) {
	if (e.textContent !== text) e.textContent = text;
}

function number(n) {
	return n < 10000 ? String(n) : n.toLocaleString("en-US");
}

function rate(n) {
	return n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
}

function duration(seconds) {
	if (seconds < 0.001) return "< 1 ms";
	if (seconds < 0.00995) return +(seconds * 1000).toFixed(1) + " ms";
	if (seconds < 0.9995) return Math.round(seconds * 1000) + " ms";
	if (seconds < 120) return (seconds < 9.95 ? +seconds.toFixed(1) : Math.round(seconds)) + " s";
	if (seconds < 7200) return Math.round(seconds / 60) + " min";
	return seconds < 172800 ? Math.round(seconds / 3600) + " h" : Math.round(seconds / 86400) + " days";
}

// A quantile is estimated within a bucket. Of the first bucket and of what is
// beyond the last one only the bound is known.
function quantile(seconds) {
	const first = 0.005, last = 300;
	if (seconds < 0) return "–";
	if (seconds <= first) return "< " + duration(first);
	return seconds < last ? duration(seconds) : "> " + duration(last);
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const clockAndZone = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

function time(ms, format = clock) {
	const at = new Date(ms);
	const today = at.toDateString() === new Date().toDateString();
	return (today ? "" : day.format(at) + " ") + format.format(at);
}

function figure(article, name, value, unit) {
	const dd = article.querySelector(`[data-figure="${name}"]`);
	dd.parentNode.hidden = value === undefined;
	dd.replaceChildren(value ?? "");
	if (unit) dd.append(element("small", unit));
}

function drawFigures(article, o) {
	figure(article, "calls", number(o.calls), rate(o.calls_per_second) + "/s");
	figure(article, "attempts", number(o.attempts));
	figure(article, "perCall", o.calls ? o.attempts_per_call.toFixed(2) : "–");
	figure(article, "budget", number(o.budget_refused));
	figure(article, "inFlight", o.attempting && number(o.attempting.in_flight));
}

function drawSplit(article, o) {
	for (const { name, count } of o.outcomes) {
		const bar = article.querySelector(".split ." + name);
		bar.style.flexGrow = count;
		bar.hidden = count === 0;
	}
	article.querySelector(".split").setAttribute("aria-label",
		"Calls: " + o.outcomes.map((p) => `${p.label} ${number(p.count)}, ${p.share}`).join("; "));
	article.querySelector(".legend").replaceChildren(...o.outcomes.filter((p) => p.count || p.name !== "refused").map((p) => {
		const li = element("li");
		li.append(element("i", undefined, "key " + p.name), p.label + " ", element("b", p.count ? p.share : "0"), p.count ? " " + number(p.count) : "");
		return li;
	}));
}

// The chart has a bar per column: calls that succeeded and what retries add
// above the line, calls that failed below it.
function drawLoad(article, o) {
	const svg = article.querySelector(".load");
	const { succeeded, failed, extra, step } = o.chart;
	const known = succeeded.map((n, i) => n < 0 ? null : { up: n, top: n + extra[i], down: failed[i] });
	const most = (of) => Math.max(0, ...known.map((c) => c ? of(c) : 0));
	const up = most((c) => c.top), down = most((c) => c.down);
	const scale = 138 / (up + down || 1), line = 1 + up * scale, width = 600 / known.length;
	const bars = [];
	known.forEach((c, i) => {
		if (!c) return;
		const bar = (y, height, name) => height > 0 && bars.push(shape("rect", { x: i * width, y, width: width - 1.5, height }, name));
		bar(line - c.up * scale, c.up * scale, "first");
		bar(line - c.top * scale, (c.top - c.up) * scale, "retried");
		bar(line, c.down * scale, "failed");
	});
	bars.push(shape("line", { x1: 0, x2: 600, y1: line, y2: line }, "base"));
	svg.replaceChildren(...bars);
	const whole = duration(known.length * step);
	const parts = [[most((c) => c.up), "succeeded"], [down, "failed"], [most((c) => c.top - c.up), "retries"]];
	const peaks = up + down === 0 ? "none" : "at most " + parts.filter(([n]) => n > 0).map(([n, what]) => `${rate(n)} ${what}`).join(", ");
	svg.setAttribute("aria-label", `Calls per second in the last ${whole}: ${peaks}`);
	setText(article.querySelector('[data-axis="left"]'), `−${whole}`);
	setText(article.querySelector('[data-axis="peak"]'), known.some((c) => c) ? peaks : "begins in a few seconds");
}

function table(title, rows, columns) {
	const t = element("table");
	t.append(element("caption", title));
	if (columns) {
		const head = t.createTHead().insertRow();
		for (const c of ["", ...columns]) {
			const th = c ? element("th", c) : element("td");
			if (c) th.scope = "col";
			head.append(th);
		}
	}
	const body = t.createTBody();
	for (const [name, ...values] of rows) {
		const row = body.insertRow();
		const head = element("th");
		head.scope = "row";
		head.append(...[name].flat());
		row.append(head, ...values.map((v) => element("td", v)));
	}
	return t;
}

function drawRecent(article, o) {
	const tables = [];
	if (o.errors.length) {
		const all = o.errors.reduce((n, e) => n + e.count, 0);
		tables.push(table(`Failed attempts: ${number(all)}`, o.errors.map((e) => {
			const about = [e.class, e.since && "since " + time(e.since), e.last && `last ${duration(Math.max(0, (article.now - e.last) / 1000))} ago`];
			return [[e.type, element("small", about.filter(Boolean).join(", "))], number(e.count)];
		})));
	}
	if (o.attempting) {
		const { count, p50, p95, p99 } = o.attempting;
		const name = ["attempts of all callers", element("small", "of " + number(count))];
		tables.push(table("Times, estimated", [[name, ...[p50, p95, p99].map(quantile)]], ["p50", "p95", "p99"]));
	}
	article.querySelector(".recent").replaceChildren(...tables);
}

function articleOf(o) {
	const key = JSON.stringify([o.name, o.endpoint]);
	let article = drawn.get(key);
	if (!article) {
		article = $("operation").content.cloneNode(true).querySelector("article");
		article.id = o.id;
		const name = article.querySelector(".name");
		name.href = "#" + o.id;
		name.append(o.name);
		if (o.endpoint) name.append(" ", element("span", o.endpoint));
		name.id = "name-of-" + o.id;
		article.setAttribute("aria-labelledby", name.id);
		drawn.set(key, article);
		near.observe(article);
	}
	return article;
}

function drawNumbers(article) {
	for (const part of [drawFigures, drawSplit, drawLoad, drawRecent]) part(article, article.last);
}

// To draw 1,000 cards takes seconds. Of many cards only those that are no
// further away than a few times the window have their numbers.
const many = 20;
const near = new IntersectionObserver((cards) => {
	for (const { target, isIntersecting } of cards) {
		target.near = isIntersecting;
		if (isIntersecting) drawNumbers(target);
	}
}, { rootMargin: "300% 0px" });
addEventListener("beforeprint", () => drawn.forEach(drawNumbers));

const meaning = { quiet: "Not known: ", good: "Healthy: ", watch: "Needs attention: ", bad: "Broken: " };

function drawOperations(report) {
	const list = $("operations");
	const shown = new Set();
	report.operations.forEach((o, i) => {
		const article = articleOf(o);
		shown.add(article);
		article.last = o;
		article.now = report.now;
		article.className = o.level;
		setText(article.querySelector(".diagnosis .unseen"), meaning[o.level]);
		setText(article.querySelector(".diagnosis .text"), o.text);
		setText(article.querySelector(".circuit"), o.circuit ? `Its circuit, ${o.circuit.name}, is ${o.circuit.state}: ${o.circuit.text.split(";")[0]}.` : "");
		if (report.operations.length <= many || article.near) drawNumbers(article);
		if (list.children[i] !== article) list.insertBefore(article, list.children[i] || null);
	});
	for (const [key, article] of drawn) {
		if (shown.has(article)) continue;
		near.unobserve(article);
		article.remove(); // of a process that responded before
		drawn.delete(key);
	}
	$("empty").hidden = report.operations.length > 0;
	const card = linked.startsWith("op-") && $(linked);
	if (card) {
		card.scrollIntoView();
		linked = "";
	}
}

function item(name, value, text, className) {
	const li = element("li");
	li.append(element("span", name), element("b", value, className), element("span", text, "what"));
	return li;
}

function drawList(id, all, draw, none) {
	$(id).replaceChildren(...(all.length ? all.map(draw) : [element("li", none, "what")]));
}

function drawGuards(report) {
	drawList("breakers", report.breakers, (b) => item(b.name, b.state, b.text, b.level),
		"None is known. A breaker appears here by WatchBreaker, or with the first event of its Observer.");
	drawList("budgets", report.budgets, (b) => {
		const li = item(b.name, b.allowed ? `${number(b.left)} of ${number(b.allowed)} left` : "none left", b.text);
		const meter = element("meter");
		Object.assign(meter, { min: 0, max: Math.max(1, b.allowed), low: b.allowed * 0.25, high: b.allowed * 0.5, optimum: Math.max(1, b.allowed), value: b.left });
		meter.setAttribute("aria-label", `${b.name}: ${b.left} of ${b.allowed} retries left`);
		li.insertBefore(meter, li.lastChild);
		return li;
	}, "None is known. A budget appears here by WatchBudget.");
	const overrides = report.controls?.overrides ?? [];
	drawList("overrides", overrides, (o) => item(o.text, o.until ? "until " + time(o.until) : "without an end",
		`by ${o.who}, since ${time(o.since)}: ${o.why}`), "Nothing is overridden.");
	$("controls").hidden = !report.controls;
	$("uncontrolled").hidden = Boolean(report.controls);
}

// The numbers of the headline change all the time. Screen readers read it aloud
// only when something else does.
function drawHeadline({ level, sentences, announcement }) {
	const title = (level === "good" ? "" : "● ") + "backoff: " + sentences.map((s) => s.text).join(" ");
	setText($("announcement"), announcement);
	if (document.title === title) return;
	document.title = title;
	$("headline").className = level;
	const before = $("headline").querySelectorAll("a");
	if (before.length === sentences.length && sentences.every((s, i) => before[i].hash === "#" + s.id)) {
		sentences.forEach((s, i) => setText(before[i], s.text)); // so that the focus stays
		return;
	}
	$("headline").replaceChildren(...sentences.map((s) => {
		const e = element(s.id ? "a" : "span", s.text);
		if (s.id) e.href = "#" + s.id;
		return e;
	}));
}

// A process that was restarted counts from 0, and behind a load balancer processes
// respond in turn.
function drawChange(p, now) {
	const of = ({ pid, host }) => `process ${pid} on ${host || "an unknown host"}`;
	const key = `${of(p)}, started ${time(p.started, clockAndZone)}`;
	if (shownProcess && key !== shownProcess) {
		setText($("change"), processes.has(key) ? "Several processes respond in turn, and each counts by itself. Open the page of one of them."
			: `Since ${time(now, clockAndZone)} another process responds, which counts by itself: ${key}. Before it was ${shownProcess}.`);
		$("change").hidden = false;
	}
	processes.add(shownProcess = key);
}

function drawProcess(report) {
	const p = report.process;
	drawChange(p, report.now);
	setText($("program"), `${p.program} on ${p.host || "an unknown host"}, process ${p.pid}`);
	setText($("process"), `${p.program}${p.version ? " " + p.version : ""}, built with ${p.go}. Running on ${p.host || "an unknown host"} as process ${p.pid} since ${time(p.started, clockAndZone)}.`);
	const { start, text } = report.period;
	$("period").hidden = report.operations.length + report.breakers.length === 0;
	setText($("period"), `All counts are of ${text}: ${time(start)} to ${time(report.now, clockAndZone)}. A budget has a window of its own.`);
}

function draw(report) {
	drawHeadline(report.headline);
	drawProcess(report);
	drawGuards(report);
	drawOperations(report);
}

// The time changes every two seconds, so screen readers should not read it
// aloud. They should when it stands still. What is on the page is old then, and
// must not be taken for the present.
function showStatus() {
	const at = updated ? time(updated, clockAndZone) : "";
	const status = problem ? `No numbers${at && " since " + at}: ${problem}` : (paused ? "Paused at " : "Live, ") + at;
	if (problem) $("status").setAttribute("role", "alert");
	else $("status").removeAttribute("role");
	document.body.classList.toggle("stale", Boolean(problem));
	setText($("status"), status);
	if (problem) drawHeadline({ level: "bad", announcement: "", sentences: [{ text: `${status}.${at && " All below is of that time."}` }] });
}

// Names may have characters that turn the text after them around, or hide.
const invisible = /\p{Cf}/gu;

// ask draws the present data. It returns what is wrong, if anything is.
async function ask() {
	let response, text;
	try {
		response = await fetch("data", { cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(timeout) });
		text = await response.text();
	} catch (e) {
		return e.name === "TimeoutError" ? `the process does not respond within ${timeout / 1000} s` : "the process cannot be reached";
	}
	if (response.type === "opaqueredirect") return "the response redirects to another address. Reload the page";
	if (!response.ok) return `the response is ${response.status} ${response.statusText}`.trim();
	try {
		draw(JSON.parse(text.replace(invisible, "\uFFFD")));
	} catch (e) {
		console.error(e);
		return "the response does not fit this page. Reload the page";
	}
	updated = new Date();
	return "";
}

async function poll() {
	clearTimeout(timer);
	problem = await ask();
	showStatus();
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
	if (paused) {
		clearTimeout(timer);
		showStatus();
	} else poll();
});
document.addEventListener("visibilitychange", () => document.hidden || paused ? clearTimeout(timer) : poll());
poll();
