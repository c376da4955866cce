package guards

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// figures are what a client made of a world, by the names below.
type figures map[string]float64

// The figures of all worlds.
const (
	success = "success"   // calls that succeed, in percent
	could   = "could"     // calls that could have succeeded, in percent
	perCall = "attempts"  // for a call
	median  = "median"    // seconds until an answer that is a success
	slow    = "99 of 100" // the same, for all but one in a hundred
)

// The figures of some worlds.
const (
	refusals   = "refused"     // requests that the limit refused, in percent
	took       = "took"        // seconds until a job was done
	ideal      = "ideal"       // seconds in which it could have been done
	worstQueue = "queue"       // seconds of work before the server, at most
	lost       = "lost"        // the time whose calls failed, in multiples of the down time
	recovery   = "recovery"    // seconds until nine in ten calls succeed for 5 s
	back       = "back"        // seconds until a call succeeds, and none fails any more
	drained    = "drained"     // seconds until calls are answered at once, too
	meanwhile  = "meanwhile"   // attempts for a call that begins while the service is down
	leaf       = "leaf"        // attempts at the last service for a call
	losing     = "lose a call" // runs that lose a call, in percent
	foremost   = "first"       // of the calls that matter most, those that succeed, in percent
	least      = "least share" // of what was served, the smallest part of a program, in percent
	strained   = "strained"    // seconds in which the client says that the host is slower than usual, in percent
)

// A format is how a figure is printed.
type format struct{ name, format string }

// order is the order in which figures are printed.
var order = []format{
	{success, "%.1f %%"}, {could, "%.1f %%"}, {perCall, "%.2f"}, {median, "%.3g s"}, {slow, "%.3g s"},
	{refusals, "%.1f %%"}, {took, "%.1f s"}, {ideal, "%.1f s"}, {lost, "%.2f x"},
	{worstQueue, "%.2f s"}, {recovery, "%.0f s"}, {back, "%.2f s"}, {drained, "%.2f s"}, {meanwhile, "%.3f"}, {leaf, "%.3f"}, {losing, "%.1f %%"}, {foremost, "%.1f %%"}, {least, "%.1f %%"}, {strained, "%.1f %%"},
}

// String prints the figures in a line.
func (f figures) String() (line string) {
	for _, o := range order {
		if _, ok := f[o.name]; ok {
			line += "  " + o.name + " " + f.print(o.name)
		}
	}
	return line
}

// print prints a figure. What never happens has a negative figure.
func (f figures) print(name string) string {
	v, ok := f[name]
	i := slices.IndexFunc(order, func(o format) bool { return o.name == name })
	switch {
	case !ok:
		return ""
	case v < 0:
		return "never"
	}
	return strings.Replace(fmt.Sprintf(order[i].format, v), ".0 ", " ", 1)
}

// counted returns the figures of all worlds.
func counted(all calls, attempts int, possible float64) figures {
	waits := all.waits()
	return figures{
		success: all.share(), could: possible, perCall: float64(attempts) / float64(max(1, len(all))),
		median: quantile(waits, 0.5), slow: quantile(waits, 0.99),
	}
}

// with adds a figure.
func (f figures) with(name string, value float64) figures {
	f[name] = value
	return f
}

// recovered returns how many seconds after a time nine in ten calls of each of
// five seconds in a row succeed, and -1 if they never do.
func (c calls) recovered(from time.Duration) float64 {
	seconds := make([]calls, int(c.end()/time.Second)+1)
	for _, one := range c {
		if at := int((one.began - from) / time.Second); one.began >= from {
			seconds[at] = append(seconds[at], one)
		}
	}
	row := 0
	for i, second := range seconds {
		if row++; len(second) == 0 || second.share() < 90 {
			row = 0
		}
		if row == 5 {
			return float64(i - 4)
		}
	}
	return -1
}

// after adds how soon after the end of an outage calls were served again, and all
// of them at once.
func (f figures) after(end time.Duration, all calls, rate float64) figures {
	first := all.end() - end
	for _, one := range all {
		if at := one.began + one.took - end; one.ok && at >= 0 {
			first = min(first, at)
		}
	}
	served := all.settled(end, rate, time.Hour)
	return f.with(back, max(first, served).Seconds()).with(drained, all.settled(end, rate, 100*time.Millisecond).Seconds())
}

// settled returns how long after a time the last call began that did not succeed
// in time, before all calls of half a second, and ten at least, did.
func (c calls) settled(from time.Duration, rate float64, within time.Duration) time.Duration {
	last, row := from, 0
	for _, one := range c {
		if row++; !one.ok || one.took > within {
			last, row = max(from, one.began), 0
		}
		if one.began >= from && row >= max(10, int(rate/2)) {
			break
		}
	}
	return last - from
}

// A board is what the clients made of each world, by "group/name".
type board map[string]results

// keptAt is where the figures of the page are kept.
const keptAt = "testdata/figures.json"

// loadBoard reads what is kept in a file, if there is one.
func loadBoard(file string) (board, error) {
	b := board{}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	return b, json.Unmarshal(text, &b)
}

// keep writes the figures to a file, with a line for each client of each world.
// Worlds that are no more, it leaves out.
func (b board) keep(file string) error {
	var lines []string
	for _, worlds := range groups() {
		for _, w := range worlds {
			if r := b[w.key()]; r != nil {
				lines = append(lines, fmt.Sprintf("%q: {\n%s\n}", w.key(), r.lines()))
			}
		}
	}
	return os.WriteFile(file, []byte("{\n"+strings.Join(lines, ",\n")+"\n}\n"), 0o666)
}

// lines returns the members of a JSON object, one on each line.
func (r results) lines() string {
	var lines []string
	for _, client := range slices.Sorted(maps.Keys(r)) {
		text, err := json.Marshal(r[client])
		if err != nil {
			panic(err) // a figure is no number
		}
		lines = append(lines, fmt.Sprintf("\t%q: %s", client, text))
	}
	return strings.Join(lines, ",\n")
}

// add adds figures, in place of those of the same world and client.
func (b board) add(w world, r results) {
	if b[w.key()] == nil {
		b[w.key()] = results{}
	}
	for client, f := range r {
		b[w.key()][client] = f.rounded()
	}
}

// rounded returns the figures with four digits, which is more than they are
// worth.
func (f figures) rounded() figures {
	all := figures{}
	for name, v := range f {
		all[name], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	}
	return all
}

// key returns under which name a board has the world.
func (w world) key() string { return w.group + "/" + w.name }
