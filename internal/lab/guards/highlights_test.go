package guards

import "fmt"

// A highlight is a world that is in the first table.
type highlight struct {
	world  string // as in a board
	figure string
	words  string // what happens
}

// cost reports whether less is better.
func (h highlight) cost() bool { return h.figure != success }

var highlights = []highlight{
	{"by chance/100 a second, 20 %", success,
		"One answer in five fails, by chance"},
	{"by chance/100 a second, 50 %", success,
		"Every second answer fails, by chance"},
	{"hung replica/100 a second, 20 %", success,
		"One of five replicas hangs: a fifth of the attempts get no response within a second"},
	{"restarts/3s of every 30s, 10 a second", success,
		"The server restarts: for 3 s of every 30 s it refuses connections"},
	{"outage/503 for a minute", success,
		"The database is down for a minute, and calls have 30 s"},
	{"marked/WriteError(Permanent), 1 of 20, 200 a second", success,
		"One request in twenty is refused for its own sake"},
	{"bare 429/by chance 1 of 20, 200 a second", success,
		"One request in twenty gets a 429, at any rate"},
	{"tenants/one is throttled, at 4 a second", success,
		"One of two tenants is throttled: the calls of the other"},
	{"tenants/one has used up its quota, at 4 a second", success,
		"One of two tenants has used up its quota: the calls of the other"},
	{"chain/1 between, the last fails 30 %", success,
		"A service between the caller and one that fails three times in ten"},
	{"limits/1 programs at 100 a second", success,
		"A limit of 100 a second, and 50 workers who want more"},
	{"dip/load 80 %, 20 processes", success,
		"A busy server has 30 % of its capacity for ten seconds"},
	{"overload/25 % fail at load 90 %, 20 processes", success,
		"A quarter of the answers of a busy server fail, and cost it as much as any"},
	{"overload/rejects at load 120 %, 20 processes", success,
		"More comes than the server can do, and it rejects the rest"},
	{"bulk/500 a second, burst 10, 2000 calls", took,
		"A job of 2,000 calls, 20 workers, a limit of 500 a second: seconds"},
	{"limits/1 programs at 100 a second", refusals,
		"Requests that are refused at the limit of 100 a second"},
	{"outage/503 for a minute", meanwhile,
		"Attempts for each call while the database is down"},
	{"restarts/3s of every 30s, 10 a second", whileDown,
		"Attempts at the server while it restarts, in two minutes"},
	{"chain/2 between, the last fails 100 %", leaf,
		"Attempts at the last of three services, for a call, while all fail"},
}

// shown prints the figure of a client. A job of which calls failed says so.
func (h highlight) shown(f figures) string {
	text := f.print(h.figure)
	if failed := 100 - f[success]; h.figure == took && failed >= 0.5 {
		return fmt.Sprintf("%s, %.0f %% fail", text, failed)
	}
	return text
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
