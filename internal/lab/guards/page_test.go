package guards

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/lab/docpage"
	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
)

// words is the text of the page.
//
//go:embed page.md.tmpl
var words string

// A page is what the words are about.
type page struct {
	board board
	mod   string // the text of a go.mod
}

// write writes the page to a directory.
func (p page) write(dir string) error {
	text, err := docpage.Fill(words, p, nil)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "guards.md"), []byte(text), 0o666)
}

// A table is rows of Markdown.
type table struct{ strings.Builder }

// row adds a row.
func (t *table) row(cells ...string) { t.WriteString("| " + strings.Join(cells, " | ") + " |\n") }

// head adds the first row, which begins with some cells and goes on with clients.
func (t *table) head(columns []client, cells ...string) {
	for _, c := range columns {
		cells = append(cells, c.caption)
	}
	t.row(cells...)
	t.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
}

// highlights is the table of the page for people.
func (p page) highlights() string { return p.compare(highlights, clients) }

// README is the table of README.md: the first rows and five clients of that table.
func (p page) README() string {
	var some []client
	for _, c := range clients {
		if slices.Contains([]string{ours, failfast, hashicorp, "failsafe", none}, c.name) {
			some = append(some, c)
		}
	}
	return p.compare(highlights[:inREADME], some)
}

// compare returns a table of what clients made of worlds.
func (p page) compare(rows []highlight, columns []client) string {
	var t table
	t.head(columns, "World", "could")
	for _, h := range rows {
		r := p.board[h.world]
		best, possible := h.best(r), r[ours].print(could)
		if h.figure != success {
			possible = r[ours].print(ideal)
		}
		cells := []string{h.words, possible}
		for _, c := range columns {
			cells = append(cells, h.shown(r[c.name], best))
		}
		t.row(cells...)
	}
	return t.String()
}

// titles are the headings of tables of figures.
var titles = map[string]string{
	success: "Calls that succeed", perCall: "Attempts per call", median: "Wait of the median call that succeeds",
	slow: "Wait of 99 of 100 calls that succeed, at most", refusals: "Requests that the limit refuses",
	took: "Until the last call has ended", worstQueue: "The server's queue, at most",
	lost: "Lost", recovery: "Recovery", meanwhile: "Attempts meanwhile, per call", back: "Back", drained: "Drained", leaf: "Attempts at the last service, per call",
	least: "Share of the program that got least",
}

// Sections are the details.
func (p page) Sections() string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", s.title, s.about)
		for _, figure := range s.figures {
			fmt.Fprintf(&b, "%s\n", p.details(s.group, figure))
		}
	}
	return b.String()
}

// details returns the table of a figure in a group.
func (p page) details(group, figure string) string {
	var t table
	columns := p.columns(group)
	switch figure {
	case success:
		t.head(columns, titles[figure], "could")
	case took:
		t.head(columns, titles[figure], "ideal")
	default:
		t.head(columns, titles[figure])
	}
	for _, w := range worldsOf(group) {
		r := p.board[w.key()]
		if _, ok := r[ours][figure]; !ok {
			continue
		}
		cells := []string{w.name}
		switch figure {
		case success:
			cells = append(cells, r[ours].print(could))
		case took:
			cells = append(cells, r[ours].print(ideal))
		}
		for _, c := range columns {
			cells = append(cells, r[c.name].print(figure))
		}
		t.row(cells...)
	}
	return t.String()
}

// columns returns the clients of a group: those of the page, and the limiters that live in it.
func (p page) columns(group string) []client {
	all := slices.Clone(clients)
	for _, c := range limiters {
		if slices.ContainsFunc(worldsOf(group), func(w world) bool { return p.board[w.key()][c.name] != nil }) {
			all = append(all, c)
		}
	}
	return all
}

// Clients is the table of the clients.
func (p page) Clients() string {
	var t table
	t.row("Client", "Version", "What it is")
	t.WriteString("|---|---|---|\n")
	for _, c := range clients {
		t.row(c.caption, docpage.Version(p.mod, c.module), c.about)
	}
	return t.String()
}

// The page for people, and where the page of all worlds is.
const (
	evidence  = "../../../docs/evidence.md"
	resultsAt = "../../../docs/results"
)

// pageOfKept returns the page of the figures that are kept.
func pageOfKept(t *testing.T) page {
	b, err := loadBoard(keptAt)
	require.NoError(t, err)
	return page{board: b, mod: docpagetest.Read(t, "../go.mod")}
}

func TestThePageIsMadeOfTheFiguresThatAreKept(t *testing.T) {
	p := pageOfKept(t)
	if *update {
		require.NoError(t, p.write(resultsAt))
	}
	dir := t.TempDir()
	require.NoError(t, p.write(dir))
	require.True(t, docpagetest.Read(t, filepath.Join(dir, "guards.md")) == docpagetest.Read(t, resultsAt+"/guards.md"), "docs/results/guards.md is not made of what is kept: run make guards-page")
}

func TestThePageForPeopleHasTheFiguresThatAreKept(t *testing.T) {
	p := pageOfKept(t)
	for name, text := range map[string]string{"worlds": p.highlights(), "behind": p.behind()} {
		docpagetest.Table(t, evidence, name, strings.Split(strings.TrimSpace(text), "\n"), *update)
	}
}

// A highlight is a world that is on the page for people.
type highlight struct {
	world  string // as in a board
	figure string
	words  string // what happens
}

// cost reports whether less is better.
func (h highlight) cost() bool { return h.figure != success }

// inREADME is how many of the highlights are in README.md.
const inREADME = 7

var highlights = []highlight{
	{"by chance/100 a second, 20 %", success,
		"One answer in five fails, by chance"},
	{"bare 429/by chance 1 of 20, 200 a second", success,
		"One request in twenty gets a 429, at any rate"},
	{"mixture/a path that fails, 60 % of 100 a second", success,
		"One path always fails, and gets 6 of 10 calls: the other calls"},
	{"restarts/3s of every 30s, 10 a second", success,
		"The server restarts: for 3 s of every 30 s it refuses connections"},
	{"flapping/503, 2s up and down, 100 a second, calls have 30s", success,
		"A service comes and goes: for 2 s of every 4 s it says 503"},
	{"outage/503 for 1m0s, 100 a second, calls have 30s", success,
		"The database is down for a minute, and calls have 30 s"},
	{"dip/load 80 %, 20 processes", success,
		"A busy server has 30 % of its capacity for ten seconds"},
	{"outage/hung for 3s, 100 a second, calls have 30s", success,
		"A service hangs for 3 s of 23"},
	{"bulk/500 a second, burst 10, 2000 calls", took,
		"A job of 2,000 calls, 20 workers, a limit of 500 a second: seconds"},
	{"by chance/100 a second, 50 %", success,
		"Every second answer fails, by chance"},
	{"rare/one call in 1m0s, 20 % fail by chance", success,
		"One answer in five fails, and a call is made once a minute"},
	{"hung replica/100 a second, 20 %", success,
		"One of five replicas hangs: a fifth of the attempts get no response within a second"},
	{"marked/WriteError(Permanent), 1 of 20, 200 a second", success,
		"One request in twenty is refused for its own sake"},
	{"mixture/too little time, 50 % of 100 a second", success,
		"Half of the callers have less time than an answer takes: the calls of the others"},
	{"tenants/one is throttled, at 4 a second", success,
		"One of two tenants is throttled: the calls of the other"},
	{"tenants/one has used up its quota, at 4 a second", success,
		"One of two tenants has used up its quota: the calls of the other"},
	{"chain/1 between, the last fails 30 %", success,
		"A service between the caller and one that fails three times in ten"},
	{"chain outage/2 between, the last is down for 10s", success,
		"Two services between the caller and one that is down for 10 s of 30"},
	{"limits/1 programs at 100 a second", success,
		"A limit of 100 a second, and 50 workers who want more"},
	{"overload/25 % fail at load 90 %, 20 processes", success,
		"A quarter of the answers of a busy server fail, and cost it as much as any"},
	{"overload/rejects at load 120 %, 20 processes", success,
		"More comes than the server can do, and it rejects the rest"},
	{"limits/1 programs at 100 a second", refusals,
		"Requests that are refused at the limit of 100 a second"},
	{"chain/2 between, the last fails 100 %", leaf,
		"Attempts at the last of three services, for a call, while all fail"},
}

// shown prints the figure of a client, bold if it is near the best, and the
// attempts per call: those in the trouble, if it has a beginning and an end. A
// job of which calls failed says so.
func (h highlight) shown(f figures, best float64) string {
	if f == nil {
		return ""
	}
	text := f.print(h.figure)
	if failed := 100 - f[success]; h.figure == took && failed >= 0.5 {
		text = fmt.Sprintf("%s, %.0f %% fail", text, failed)
	}
	if h.near(f, best) {
		text = "**" + text + "**"
	}
	if h.figure != success && h.figure != took {
		return text
	}
	attempts, ok := f[meanwhile]
	if !ok {
		attempts = f[perCall]
	}
	return fmt.Sprintf("%s (%.2f)", text, attempts)
}

// best returns the best figure of the clients, of those whose job was done.
func (h highlight) best(r results) float64 {
	best := -1.0
	for _, c := range clients {
		f := r[c.name]
		v := f[h.figure]
		switch {
		case f == nil, h.figure == took && f[success] < 99.5:
		case best < 0, h.cost() && v < best, !h.cost() && v > best:
			best = v
		}
	}
	return best
}

// near reports whether a figure is as good as the best, but for chance.
func (h highlight) near(f figures, best float64) bool {
	v := f[h.figure]
	if h.cost() {
		return v <= 1.05*best && (h.figure != took || f[success] >= 99.5)
	}
	return v >= best-0.5
}

// A section is what the page says of a group of worlds.
type section struct {
	group, title, about string
	figures             []string // a table for each
}

var sections = []section{
	{"by chance", "Answers that fail by chance", `The service responds with 503 after 5 ms, to each attempt with the same
probability, independently of the others. An attempt that fails for one client fails for all. Calls have 30 s. With four
attempts and nothing that holds them back, all calls but the fourth power of that probability succeed.`, []string{success, perCall}},
	{"hung replica", "A replica that hangs", `Some attempts never get a response. An attempt has a second, and a call 30.`, []string{success, perCall}},
	{"latency", "Latency that varies", `Some answers are a 503, and the answers take a time that varies: log-normal
with a median of 20 ms, or errors that take longer (300 ms, successes 5) or shorter (1 ms, successes
100) than successes, or attempts that have as much time as 99 or 95 of 100 successes take.`, []string{success}},
	{"marked", "Requests that are refused for their own sake", `The service refuses some calls however often they come, by
[DoNotRetry or WriteError](../../backoffhttp/donotretry.go), and answers all others. A call has 3 s.`, []string{success, perCall}},
	{"bare 429", "A 429 that has nothing to do with the rate", `Some requests get a 429 without a Retry-After: every tenth,
or each by chance. A call has 3 s.`, []string{success, slow}},
	{"limits", "Limits", `The server has a limit (a token bucket). Each program has 50 workers, and so could make many
times as many calls, for a minute. Or the limit falls to a tenth for half a minute: recovery is how long
it takes until all of it is used again. Or a program rests between bursts of calls, which have 5 s; five of them
may go at once.`, []string{success, refusals, least, recovery}},
	{"chain", "Services between", `A call goes through services to the last one, which fails by chance. Those of
this library have Inbound and WriteError, as its documents say; those of the others pass on that it
failed. A call has 30 s, and so not all attempts that could be made are made.`, []string{success, leaf}},
	{"tenants", "Two tenants", `A program calls a host for two tenants, with a credential each. One of them is
throttled with 429, at the rates below; "used up its quota" adds Retry-After: 3600. The figures are those
of the other one, who makes 20 calls a second, or 2 beside a quota, and whom the host would always serve.`, []string{success, median}},
	{"bulk", "A job at a limit", `A program that has just started makes calls with 20 workers, to a server with a limit
that says 429. The time ends with the last call, even if that failed.`, []string{took, success, refusals}},
	{"restarts", "Restarts", `Nobody listens for the last seconds of each half minute, for two minutes. The server can do
twice the work that comes. A call has 30 s, and so all could succeed. "Lost" is the time whose calls failed, in
multiples of the down time, and "queue" the work that has come back at once.`, []string{success, lost, meanwhile, worstQueue, slow}},
	{"dip", "A server that is slow for ten seconds", `The server can do 1,000 a second, one after the other, and
does not notice that a caller has gone. For ten seconds it does 30 % of that. Attempts have a second.
With "429" it rejects what comes while 200 ms of work wait, which costs a third of an answer. Recovery is the
time until nine of ten calls succeed for 5 s.`, []string{success, recovery, perCall}},
	{"overload", "Overload", `The same server. Some of its answers are errors that cost as much as any; or more comes than
it can do, and it rejects what comes while 200 ms of work wait. That begins after a minute in which all is well,
except "from the start". "Could" is what remains when retries get all
of its work that first attempts leave.`, []string{success, perCall}},
	{"slower", "A server that only gets slower", `The same server does not say that it has too much. After 40 calm seconds it gets
more than it can do for 40 s, or does 40 % of its work for 30 s. It refuses nothing; with "rejects" it refuses what comes while
200 ms of work wait. A call has a second; or an attempt has one, and a call 10. The figures are those from the trouble on. Failsafe-go
has its adaptive limiter here; [comparison.md](comparison.md#limits-of-concurrency) has other limiters.`, []string{success, perCall, slow, worstQueue}},
	{"room", "Answers that take longer, and room for all", `The service has room for all calls. After a minute its answers take
longer though it is not overloaded, to the end or for some seconds, and some attempts get no response. A client that
takes this for an overload loses calls that would succeed. An attempt has a second. The figures are those from then on.`, []string{success, slow}},
	{"outage", "Outages", `The service refuses connections for a while, says 503, takes requests and never answers, or its name is
not found. An attempt has a second to answer. "Could" is how many calls see the service up while they have time. "Meanwhile" is
how many attempts there are for a call that begins in the outage. "Back" is how
long after the outage the first call succeeds, and the last one begins that fails. "Drained" is how long calls still
wait for more than a tenth of a second.`, []string{success, meanwhile, back, drained}},
	{"flapping", "A service that comes and goes", `The service is up and down in turn.`, []string{success, meanwhile}},
	{"chain outage", "An outage behind other services", `As in [services between](#services-between), but the last service refuses
connections for a while, and otherwise answers.`, []string{success, meanwhile, back, drained}},
	{"mixture", "Good calls beside bad ones", `A share of the calls of a host fails, whatever the client does: one path says 503,
or all that is not idempotent, or the paths of one upstream say 502; or the callers have 30 ms where an answer takes
200. The figures are those of the other calls. Attempts are those of all.`, []string{success, perCall}},
	{"kinds", "Quick calls beside slow ones", `Calls of 5 ms and slow ones share a host, in a proportion that stays or changes, and some of
one kind fail. In the last rows the latency varies, or grows while replicas are replaced. Nothing is overloaded.
"Strained" is the share of the seconds after the first minute in which the client takes it for that.`, []string{success, perCall, strained}},
	{"jobs", "A job at a limit, again and again", `Workers of one program make 1,000 calls without a deadline at a limit with a burst, 200 times. "Lose
a call" is how many of these runs lose one at least.`, []string{losing, refusals}},
	{"priorities", "More than a limit allows", `Calls of one, two or three priorities come, the highest first in the name, each with a few seconds.
"First" is how many of the highest succeed.`, []string{success, foremost, refusals}},
	{"quota", "A quota that is used up", `For a while all calls get a 429. Then all is well. "Recovery" is how long after that nine of ten
calls succeed again, and "meanwhile" the attempts for a call while nothing is served.`, []string{recovery, meanwhile}},
	{"rare", "Rare callers", `Two hundred calls, of which few are near another. The service fails by chance, or
refuses connections for two seconds of ten.`, []string{success, perCall}},
	{"fresh", "Worlds that nobody tuned for", `No constant of the guards was chosen by these worlds, and they are reported as
they fell. A [test](../../internal/lab/guards/fresh_test.go) says what happens in each. No bar holds them.`, []string{success, perCall}},
}

// A gap is a world in which another client has more successes than the default.
type gap struct {
	world  world
	other  client
	points float64
}

// gaps returns the worlds of a group in which another client is more than a
// point ahead of the default, the widest gap first.
func (p page) gaps(group string) (all []gap) {
	for _, w := range worldsOf(group) {
		r := p.board[w.key()]
		widest := gap{world: w, points: 1}
		for _, c := range p.columns(group) {
			if d := r[c.name][success] - r[ours][success]; d > widest.points {
				widest.other, widest.points = c, d
			}
		}
		if widest.other.name != "" {
			all = append(all, widest)
		}
	}
	slices.SortStableFunc(all, func(a, b gap) int { return int(100*b.points) - int(100*a.points) })
	return all
}

// behind is the table of where another client has more successes, a row for each group.
func (p page) behind() string {
	var t table
	t.row("Trouble", "Ahead in", "Most in", "Another client", "Default client")
	t.WriteString("|---|---|---|---|---|\n")
	for _, s := range sections {
		gaps := p.gaps(s.group)
		if len(gaps) == 0 {
			continue
		}
		g := gaps[0]
		r := p.board[g.world.key()]
		shown := func(f figures) string { return fmt.Sprintf("%s (%s)", f.print(success), f.print(perCall)) }
		t.row(s.title, fmt.Sprintf("%d of %d", len(gaps), len(worldsOf(s.group))), g.world.name,
			g.other.caption+" "+shown(r[g.other.name]), shown(r[ours]))
	}
	return t.String()
}

// Slower says where the calls of the default client wait longer than those of a
// client that has as many successes.
func (p page) Slower() string {
	var b strings.Builder
	for _, s := range sections {
		var most string
		widest := 0.5 // seconds
		for _, w := range worldsOf(s.group) {
			r := p.board[w.key()]
			for _, c := range p.columns(s.group) {
				d := r[ours][slow] - r[c.name][slow]
				if r[c.name][success] < r[ours][success]-1 || d <= widest || r[c.name][slow] < 0 {
					continue
				}
				widest = d
				most = fmt.Sprintf("- **%s**, \"%s\": %s, and with %s %s.\n", s.title, w.name, r[ours].print(slow), c.caption, r[c.name].print(slow))
			}
		}
		b.WriteString(most)
	}
	if b.Len() == 0 {
		return "Nowhere by more than half a second.\n"
	}
	return b.String()
}

// Shares says how programs share a limit.
func (p page) Shares() string {
	two, four := p.board["limits/2 programs at 100 a second"][ours], p.board["limits/4 programs at 100 a second"][ours]
	return fmt.Sprintf("Programs that share a limit do not share it evenly, though they use all of it. Of two, the one that gets less has %s of what is served (even is 50), and of four %s (25).",
		two.print(least), four.print(least))
}

func TestTheREADMEHasTheFirstRowsOfThePage(t *testing.T) {
	const file = "../../../README.md"
	text := docpagetest.Read(t, file)
	before, rest, _ := strings.Cut(text, "| World | could |")
	_, after, _ := strings.Cut(rest, "\n\n")
	made := before + pageOfKept(t).README() + "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(made), 0o666))
		return
	}
	require.True(t, made == text, "README.md is not made of what is kept: run make guards-page")
}
