package guards

import (
	"fmt"
	"slices"
	"strings"
)

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
		for _, c := range clients {
			if d := r[c.name][success] - r[ours][success]; d > widest.points && c.name != patient {
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

// Behind says where another client has more successes, a line for each group.
func (p page) Behind() string {
	var b strings.Builder
	for _, s := range sections {
		gaps := p.gaps(s.group)
		if len(gaps) == 0 {
			continue
		}
		g := gaps[0]
		r := p.board[g.world.key()]
		fmt.Fprintf(&b, "- **%s**: in %d of %d worlds. Most in \"%s\": %s has %s, and the default client %s%s. They make %s and %s attempts per call.\n",
			s.title, len(gaps), len(worldsOf(s.group)), g.world.name, g.other.caption, r[g.other.name].print(success),
			r[ours].print(success), p.patience(g.world), r[g.other.name].print(perCall), r[ours].print(perCall))
	}
	if b.Len() == 0 {
		return "Nowhere by more than a point.\n"
	}
	return b.String()
}

// patience says what a patient client has, if that is more.
func (p page) patience(w world) string {
	r := p.board[w.key()]
	if r[patient][success] < r[ours][success]+1 {
		return ""
	}
	return fmt.Sprintf(" (patient: %s)", r[patient].print(success))
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
			for _, c := range clients {
				d := r[ours][slow] - r[c.name][slow]
				if c.name == patient || r[c.name][success] < r[ours][success]-1 || d <= widest || r[c.name][slow] < 0 {
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
