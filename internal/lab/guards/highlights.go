package guards

import "fmt"

// A highlight is a world that is in the first table and in the picture.
type highlight struct {
	world  string // as in a board
	figure string
	words  string // what happens
	brief  string // the same for the picture
	// Costs up to good are good, and those up to fair are fair.
	good, fair float64
}

// cost reports whether less is better.
func (h highlight) cost() bool { return h.figure != success }

var highlights = []highlight{
	{
		world: "by chance/100 a second, 20 %", figure: success,
		words: "One answer in five fails, by chance", brief: "1 answer in 5 fails by chance",
	},
	{
		world: "by chance/100 a second, 50 %", figure: success,
		words: "Every second answer fails, by chance", brief: "1 answer in 2 fails by chance",
	},
	{
		world: "hung replica/100 a second, 20 %", figure: success,
		words: "One of five replicas hangs: a fifth of the attempts get no response within a second", brief: "1 of 5 replicas hangs",
	},
	{
		world: "restarts/3s of every 30s, 10 a second", figure: success,
		words: "The server restarts: for 3 s of every 30 s it refuses connections", brief: "restarts: 3 s of every 30 s",
	},
	{
		world: "outage/503 for a minute", figure: success,
		words: "The database is down for a minute, and calls have 30 s", brief: "down for a minute",
	},
	{
		world: "marked/WriteError(Permanent), 1 of 20, 200 a second", figure: success,
		words: "One request in twenty is refused for its own sake", brief: "1 request in 20 is refused",
	},
	{
		world: "bare 429/by chance 1 of 20, 200 a second", figure: success,
		words: "One request in twenty gets a 429, at any rate", brief: "1 request in 20 gets a 429",
	},
	{
		world: "tenants/one is throttled, at 4 a second", figure: success,
		words: "One of two tenants is throttled: the calls of the other", brief: "another tenant is throttled",
	},
	{
		world: "tenants/one has used up its quota, at 4 a second", figure: success,
		words: "One of two tenants has used up its quota: the calls of the other", brief: "another tenant has no quota",
	},
	{
		world: "chain/1 between, the last fails 30 %", figure: success,
		words: "A service between the caller and one that fails three times in ten", brief: "through a service; 3 in 10 fail",
	},
	{
		world: "limits/1 programs at 100 a second", figure: success,
		words: "A limit of 100 a second, and 50 workers who want more", brief: "a limit of 100/s, 50 workers",
	},
	{
		world: "dip/load 80 %, 20 processes", figure: success,
		words: "A busy server does 30 % of its work for ten seconds", brief: "server slow for 10 s",
	},
	{
		world: "overload/25 % fail at load 90 %, 20 processes", figure: success,
		words: "A quarter of the answers of a busy server fail, and cost it as much as any", brief: "1 in 4 fails, server busy",
	},
	{
		world: "overload/rejects at load 120 %, 20 processes", figure: success,
		words: "More comes than the server can do, and it rejects the rest", brief: "a fifth too much for the server",
	},
	{
		world: "bulk/500 a second, burst 10, 2000 calls", figure: took, good: 5.3, fair: 8,
		words: "A job of 2,000 calls, 20 workers, a limit of 500 a second: seconds", brief: "seconds for a job at 500/s",
	},
	{
		world: "limits/1 programs at 100 a second", figure: refusals, good: 15, fair: 40,
		words: "Requests that are refused at the limit of 100 a second", brief: "percent refused at the limit",
	},
	{
		world: "outage/503 for a minute", figure: meanwhile, good: 1.1, fair: 2.5,
		words: "Attempts for each call while the database is down", brief: "attempts per call in the minute",
	},
	{
		world: "restarts/3s of every 30s, 10 a second", figure: whileDown, good: 200, fair: 400,
		words: "Attempts at the server while it restarts, in two minutes", brief: "attempts while it restarts",
	},
	{
		world: "chain/2 between, the last fails 100 %", figure: leaf, good: 1.1, fair: 4,
		words: "Attempts at the last of three services, for a call, while all fail", brief: "attempts at the last of three",
	},
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
	for _, c := range shownClients() {
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

// shownClients returns the clients of the page.
func shownClients() (all []client) {
	for _, c := range clients {
		if !c.aside {
			all = append(all, c)
		}
	}
	return all
}
