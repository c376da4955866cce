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

// README is the table of README.md: the first rows and six clients of that table.
func (p page) README() string {
	var some []client
	for _, c := range clients {
		if slices.Contains([]string{ours, failfast, hashicorp, "failsafe", "cenkalti", none}, c.name) {
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
const inREADME = 6

var highlights = []highlight{
	{"by chance/100 a second, 50 %", success,
		"Half of the responses fail at random"},
	{"mixture/a path that fails, 60 % of 100 a second", success,
		"One path always fails and gets 60 % of the calls: calls to other paths"},
	{"restarts/3s of every 30s, 10 a second", success,
		"The server restarts: every 30 s it refuses connections for 3 s"},
	{"flapping/503, 2s up and down, 100 a second, calls have 30s", success,
		"A service goes up and down: it returns 503 for 2 s of every 4 s"},
	{"outage/503 for 1m0s, 100 a second, calls have 30s", success,
		"The database is down for a minute, and each call has a deadline of 30 s"},
	{"dip/load 80 %, 20 processes", success,
		"A busy server has 30 % of its capacity for ten seconds"},
	{"by chance/100 a second, 20 %", success,
		"One response in five fails at random"},
	{"bare 429/by chance 1 of 20, 200 a second", success,
		"One request in twenty gets a 429, whatever the rate"},
	{"outage/hung for 3s, 100 a second, calls have 30s", success,
		"A service hangs for 3 s out of 23 s"},
	{"bulk/500 a second, burst 10, 2000 calls", took,
		"20 workers make 2,000 calls at a limit of 500 a second: seconds until the last one is done"},
	{"rare/one call in 1m0s, 20 % fail by chance", success,
		"One response in five fails at random, and there is one call a minute"},
	{"hung replica/100 a second, 20 %", success,
		"One of five replicas hangs: a fifth of the attempts get no response within a second"},
	{"marked/WriteError(Permanent), 1 of 20, 200 a second", success,
		"One request in twenty is invalid: no retry can succeed"},
	{"mixture/too little time, 50 % of 100 a second", success,
		"Half of the callers have less time than a response takes: calls of the other half"},
	{"tenants/one is throttled, at 4 a second", success,
		"One of two tenants is throttled: calls of the other one"},
	{"tenants/one has used up its quota, at 4 a second", success,
		"One of two tenants has used up its quota: calls of the other one"},
	{"chain/1 between, the last fails 30 %", success,
		"One service between the caller and one that fails 30 % of the time"},
	{"chain outage/2 between, the last is down for 10s", success,
		"Two services between the caller and one that is down for 10 s out of 30 s"},
	{"limits/1 programs at 100 a second", success,
		"50 workers share a limit of 100 requests a second, and want more"},
	{"overload/25 % fail at load 90 %, 20 processes", success,
		"A quarter of a busy server's responses are errors, which cost it as much as successes"},
	{"overload/rejects at load 120 %, 20 processes", success,
		"A server gets more requests than it can serve, and rejects the rest"},
	{"limits/1 programs at 100 a second", refusals,
		"At that limit of 100 requests a second: requests that are rejected"},
	{"chain/2 between, the last fails 100 %", leaf,
		"Three services in a row, and the last one always fails: attempts that it gets for each call"},
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
	{"by chance", "Responses that fail at random", `The service responds with 503 after 5 ms, to each attempt with the same
probability. An attempt that fails for one client fails for all. Calls have 30 s. With four
attempts and no guards, a call fails only if all four do: the fourth power of that probability.`, []string{success, perCall}},
	{"hung replica", "A replica that hangs", `Some attempts never get a response. An attempt times out after a second, and a call after 30.`, []string{success, perCall}},
	{"latency", "Latency that varies", `Some responses are a 503, and their latency varies: log-normal
with a median of 20 ms, or errors that take longer (300 ms, successes 5) or shorter (1 ms, successes
100) than successes, or a timeout that 99 or 95 of 100 successes meet.`, []string{success}},
	{"marked", "Requests that no retry can save", `The service rejects some calls however often they are sent, by
[DoNotRetry or WriteError](../../backoffhttp/donotretry.go), and serves all others. A call has 3 s.`, []string{success, perCall}},
	{"bare 429", "A 429 that has nothing to do with the rate", `Some requests get a 429 without a Retry-After: every tenth,
or each by chance. A call has 3 s.`, []string{success, slow}},
	{"limits", "Limits", `The server has a limit (a token bucket). Each program has 50 workers, who could make many times
more calls, for a minute. Or the limit drops to a tenth for half a minute: recovery is how long
it takes until all of it is used again. Or a program rests between bursts of calls, which have 5 s; the limit lets five
of them through at once.`, []string{success, refusals, least, recovery}},
	{"chain", "Services between", `A call goes through services to the last one, which fails at random. With this
library they use Inbound and WriteError, as its documents say; with the others they return the
failure. A call has 30 s, and so there is no time for all attempts.`, []string{success, leaf}},
	{"tenants", "Two tenants", `A program calls a host for two tenants, each with its own credential. One of them is
throttled with 429, at the rates below; "used up its quota" adds Retry-After: 3600. The figures are those
of the other one. It makes 20 calls a second, or 2 in the worlds of a quota, and the host would serve them all.`, []string{success, median}},
	{"bulk", "A job at a limit", `A program that has just started makes calls with 20 workers, to a server with a limit
that says 429. The time runs until the last call has ended, even if it failed.`, []string{took, success, refusals}},
	{"restarts", "Restarts", `Nobody listens for the last seconds of each half minute, for two minutes. The server can do
twice the work that it gets. A call has 30 s, and so all could succeed. "Lost" is how many calls failed, as a
multiple of those that began while the server was down, and "queue" is the work that arrives at once when it is back.`, []string{success, lost, meanwhile, worstQueue, slow}},
	{"dip", "A server that is slow for ten seconds", `The server handles 1,000 requests a second, one after the other, and
does not notice that a caller has gone. For ten seconds it handles 30 % of that. Attempts time out after a
second: the harness sets this for all clients, and none does so by default.
With "429" it rejects requests while 200 ms of work are queued; a rejection costs a third of a response. Recovery is the
time until nine of ten calls succeed for 5 s.`, []string{success, recovery, perCall}},
	{"overload", "Overload", `The same server. Some of its responses are errors, which cost as much as successes; or it gets more than
it can serve, and rejects requests while 200 ms of work are queued. The trouble begins after a good minute,
except "from the start". "Could" is the figure if retries use all the capacity that first attempts
leave.`, []string{success, perCall}},
	{"slower", "A server that only gets slower", `The same server does not say that it has too much to do. After 40 calm seconds it gets
more than it can serve for 40 s, or has 40 % of its capacity for 30 s. It rejects nothing; with "rejects" it rejects requests while
200 ms of work are queued. A call has a second; or an attempt has one, and a call 10. The figures begin with the trouble. Failsafe-go
uses its adaptive limiter here; [comparison.md](comparison.md#limits-of-concurrency) has other limiters.`, []string{success, perCall, slow, worstQueue}},
	{"room", "Slower responses without an overload", `The service has the capacity for all calls. After a minute its responses take
longer, to the end or for some seconds, and some attempts get none. A client that
takes this for an overload loses calls that would succeed. An attempt times out after a second. The figures begin with the trouble.`, []string{success, slow}},
	{"outage", "Outages", `For a while the service refuses connections, returns 503, accepts requests and never responds, or its name is
not found. An attempt times out after a second. "Could" is how many calls see the service up while they have time. "Meanwhile" is
the number of attempts for each call that begins in the outage. "Back" is how
long after the outage the first call succeeds, and when the last call that fails begins. "Drained" is how long calls still
wait for more than a tenth of a second.`, []string{success, meanwhile, back, drained}},
	{"flapping", "A service that goes up and down", `The service is up and down in turn.`, []string{success, meanwhile}},
	{"chain outage", "An outage behind other services", `As in [services between](#services-between), but the last service refuses
connections for a while, and otherwise responds.`, []string{success, meanwhile, back, drained}},
	{"mixture", "Good calls beside bad ones", `Some of the calls to a host always fail: one path returns 503,
or every request that is not idempotent does, or the paths of one upstream return 502; or the callers have 30 ms, and a response takes
200. The figures are those of the other calls. Attempts are those of all calls.`, []string{success, perCall}},
	{"kinds", "Quick calls beside slow ones", `Calls of 5 ms and slow ones share a host, in a proportion that stays or changes, and some of
one kind fail. In the last rows the latency varies, or grows while replicas are replaced. Nothing is overloaded.
"Strained" is the share of the seconds after the first minute in which the client sees an overload.`, []string{success, perCall, strained}},
	{"jobs", "A job at a limit, again and again", `Workers of one program make 1,000 calls without a deadline, at a limit with a burst. They do so 200 times. "Lose
a call" is how many of these runs lose at least one.`, []string{losing, refusals}},
	{"priorities", "More than a limit allows", `The calls have one, two or three priorities, the highest first in the name, and a few seconds each.
"First" is how many of the highest succeed.`, []string{success, foremost, refusals}},
	{"quota", "A quota that is used up", `For a while all calls get a 429, and then none. "Recovery" is how long it then takes until nine of ten
calls succeed, and "meanwhile" is the number of attempts for each call while nothing is served.`, []string{recovery, meanwhile}},
	{"rare", "Rare callers", `Two hundred calls with long pauses between them. The service fails at random, or
refuses connections for two of every ten seconds.`, []string{success, perCall}},
	{"fresh", "Worlds that nobody tuned for", `No constant of the guards was chosen to suit these worlds, and the figures are reported as
they are. A [test](../../internal/lab/guards/fresh_test.go) says what happens in each. No bar holds them.`, []string{success, perCall}},
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
